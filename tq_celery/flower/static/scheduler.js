/* The Scheduler page: asks for the data every two seconds and shows it. */
(function () {
    "use strict";

    var EVERY = 2000,
        root = document.getElementById("scheduler"),
        readOnly = root.dataset.readOnly === "1",
        autorefresh = root.dataset.autorefresh === "1",
        known = {},
        timer = null,
        asked = 0;

    function byId(id) {
        return document.getElementById(id);
    }

    function text(id, value) {
        byId(id).textContent = value;
    }

    /* Every value is set as text, never as HTML: names and messages are anybody's. */
    function make(tag, content, attributes) {
        var element = document.createElement(tag);
        if (content !== undefined && content !== null) {
            if (content instanceof Node) {
                element.appendChild(content);
            } else {
                element.textContent = content;
            }
        }
        Object.entries(attributes || {}).forEach(function (pair) {
            element.setAttribute(pair[0], pair[1]);
        });
        return element;
    }

    function age(ms) {
        if (ms === null || ms === undefined) {
            return "—";
        }
        if (ms < 1000) {
            return Math.round(ms) + " ms";
        }
        var seconds = ms / 1000;
        if (seconds < 60) {
            return seconds.toFixed(1) + " s";
        }
        if (seconds < 3600) {
            return Math.floor(seconds / 60) + " min " + Math.floor(seconds % 60) + " s";
        }
        return Math.floor(seconds / 3600) + " h " + Math.floor(seconds % 3600 / 60) + " min";
    }

    function percent(share) {
        return share === null ? "—" : (share * 100).toFixed(1) + " %";
    }

    function sum(rows, field) {
        return rows.reduce(function (total, row) { return total + row[field]; }, 0);
    }

    function toast(message, failed) {
        var element = make("div", make("div", message, {"class": "toast-body"}), {
            "class": "toast border-0 text-bg-" + (failed ? "danger" : "success"),
            "role": failed ? "alert" : "status"
        });
        byId("toast-container").appendChild(element);
        element.addEventListener("hidden.bs.toast", function () { element.remove(); });
        bootstrap.Toast.getOrCreateInstance(element, {delay: failed ? 10000 : 4000}).show();
    }

    /* What a proxy before Flower says is a page, which is nothing to read in a line. */
    function refusal(reply) {
        if (reply.responseJSON && reply.responseJSON.error) {
            return reply.responseJSON.error;
        }
        return reply.status ? "Flower answers " + reply.status + " " + reply.statusText
            : "Flower does not answer";
    }

    /* jQuery adds Flower's XSRF token to what changes something. */
    function act(path, values, done) {
        $.ajax({type: "POST", url: root.dataset.api + path, data: values}).done(function () {
            toast(done, false);
            refresh();
        }).fail(function (reply) {
            toast(refusal(reply), true);
        });
    }

    function button(label, kind, press) {
        var element = make("button", label, {
            "type": "button", "class": "btn btn-sm btn-outline-" + kind + " ms-1"
        });
        element.addEventListener("click", press);
        return element;
    }

    /* Rows stay the same elements while their values change, so that neither the focus nor a click
       in the making is lost, and what was opened stays open. */
    function set(cell, value) {
        if (value instanceof Node) {
            cell.replaceChildren(value);
        } else if (cell.textContent !== String(value)) {
            cell.textContent = value;
        }
    }

    function renew(row, item, kind) {
        if (row.item && kind.fixed) {
            return;
        }
        row.item = item;
        kind.cells(item).forEach(function (value, index) {
            set(row.element.children[index] || row.element.appendChild(make("td")), value);
        });
        var last = row.last || row.element.appendChild(make("td", null, {"class": "tq-right"})),
            words = readOnly ? [] : kind.buttons(row);
        row.last = last;
        if (row.words !== words.map(function (each) { return each[0]; }).join()) {
            row.words = words.map(function (each) { return each[0]; }).join();
            last.replaceChildren.apply(last, words.map(function (each) {
                return button(each[0], each[1], each[2]);
            }));
        }
    }

    function fill(id, items, kind, empty) {
        var body = byId(id), focus = document.activeElement, rows = new Map(), elements;
        items.forEach(function (item) {
            var row = (known[id] && known[id].get(kind.key(item))) || {element: make("tr")};
            renew(row, item, kind);
            rows.set(kind.key(item), row);
        });
        known[id] = rows;
        elements = Array.from(rows.values(), function (row) { return row.element; });
        if (!elements.length) {
            elements = [make("tr", make("td", empty, {
                "class": "empty-table-message", "colspan": kind.columns
            }))];
        }
        if (elements.length !== body.children.length ||
                elements.some(function (each, index) { return body.children[index] !== each; })) {
            body.replaceChildren.apply(body, elements);
            if (body.contains(focus)) {
                focus.focus({preventScroll: true});
            }
        }
    }

    function named(name, badges) {
        var element = make("span", name);
        badges.forEach(function (badge) {
            if (badge) {
                element.appendChild(make("span", badge, {"class": "badge text-bg-warning ms-2"}));
            }
        });
        return element;
    }

    function pauses(noun, name) {
        return function (row) {
            var verb = row.item.paused ? "resume" : "pause", values = {};
            values[noun] = row.item[noun];
            return [row.item.paused ? "Resume" : "Pause", "secondary", function () {
                act(name + "/" + verb, values, row.item[noun] + ": " + verb + "d");
            }];
        };
    }

    var pauseQueue = pauses("queue", "queues"), pauseTenant = pauses("tenant", "tenants");

    var QUEUE = {
        columns: 10,
        key: function (queue) { return queue.queue; },
        cells: function (queue) {
            var stuck = !queue.workers && queue.submitted + queue.pending > 0;
            return [named(queue.queue, [queue.paused && "paused", stuck && "no worker"]),
                queue.submitted, queue.delayed, queue.pending, queue.dispatched, queue.running,
                queue.tenants, queue.workers, queue.slots];
        },
        buttons: function (row) { return [pauseQueue(row)]; }
    };

    function shareCell(tenant) {
        var cell = make("div"), bar = make("div", make("i"), {"class": "tq-bar"});
        if (tenant.share === null) {
            return make("div", "—");
        }
        bar.firstChild.style.width = (tenant.share * 100) + "%";
        bar.appendChild(make("b")).style.left = "min(" + (tenant.fair * 100) + "%, 100% - 2px)";
        /* A task that has just come is nobody's fault. */
        if (tenant.oldest > 1000 && !tenant.paused && tenant.share < tenant.fair * 0.8) {
            bar.classList.add("tq-under");
        } else if (tenant.share > tenant.fair * 1.25) {
            bar.classList.add("tq-over");
        }
        cell.appendChild(bar);
        cell.className = bar.classList.contains("tq-under") ? "text-danger" : "";
        cell.appendChild(make("span", percent(tenant.share) + " / " + percent(tenant.fair)));
        if (tenant.service !== null) {
            cell.title = age(tenant.service) + " of worker time in all; its tasks waited " +
                age(tenant.mean) + " on average";
        }
        return cell;
    }

    var TENANT = {
        columns: 9,
        key: function (tenant) { return tenant.tenant; },
        cells: function (tenant) {
            var cap = tenant.max_running === null ? "" : " of " + tenant.max_running;
            return [named(tenant.tenant, [tenant.paused && "paused"]), tenant.weight, tenant.waiting,
                tenant.running + cap, shareCell(tenant), age(tenant.p50), age(tenant.p95),
                age(tenant.oldest)];
        },
        buttons: function (row) {
            return [["Weight", "secondary", function () {
                var name = row.item.tenant,
                    weight = window.prompt("Weight of " + name, row.item.weight);
                if (weight !== null) {
                    act("tenants/weight", {tenant: name, weight: weight}, name + ": weight " + weight);
                }
            }], pauseTenant(row)];
        }
    };

    var LETTER = {
        columns: 7,
        fixed: true,
        key: function (letter) { return letter.entry; },
        cells: function (letter) {
            var more = make("details", make("summary", letter.reason));
            more.appendChild(make("pre", letter.preview, {"class": "tq-preview"}));
            return [new Date(letter.at).toLocaleString(), letter.task || letter.id, letter.queue,
                letter.tenant, letter.attempts, more];
        },
        buttons: function (row) {
            return row.item.readable ? [["Requeue", "primary", function () {
                act("dead/requeue", {entry: row.item.entry},
                    "Requeued " + (row.item.task || row.item.id));
            }]] : [];
        }
    };

    function policyLine(policy) {
        if (policy.name === null) {
            return "no policy yet; the first scheduler sets it";
        }
        var line = "policy " + policy.name;
        if (policy.name === "wfq") {
            line += ", by " + policy.order_within + " within a tenant";
        }
        if (policy.max_running !== null) {
            line += ", at most " + policy.max_running + " running";
        }
        return line + (policy.unranked ? ", " + policy.unranked + " tenants still to be ranked" : "");
    }

    function notes(data) {
        var said = [], alive = data.workers.filter(function (each) { return each.remaining > 0; });
        if (data.leader.owner === null) {
            said.push("No scheduler leads: nothing is ranked or dispatched. Start one with tq scheduler.");
        }
        if (!alive.length) {
            said.push("No worker serves this namespace.");
        }
        byId("tq-notes").replaceChildren.apply(byId("tq-notes"), said.map(function (each) {
            return make("div", each, {"class": "alert alert-warning py-2", "role": "alert"});
        }));
        return alive;
    }

    function show(data) {
        var alive = notes(data), leader = data.leader;
        text("tq-policy", policyLine(data.policy));
        text("tq-leader", leader.owner === null ? "none" : leader.owner);
        byId("tq-leader").title = leader.owner || "";
        text("tq-lease", "epoch " + leader.epoch +
            (leader.owner === null ? "" : ", lease " + age(leader.remaining)));
        text("tq-standbys", leader.standbys.length + " standing by" +
            (leader.standbys.length ? ": " + leader.standbys.join(", ") : ""));
        byId("tq-standbys").title = leader.standbys.join("\n");
        text("tq-waiting", (sum(data.queues, "submitted") + sum(data.queues, "pending")).toLocaleString());
        text("tq-delayed", sum(data.queues, "delayed").toLocaleString() + " delayed");
        text("tq-flight", (sum(data.queues, "dispatched") + sum(data.queues, "running")).toLocaleString());
        text("tq-workers", alive.length + (alive.length === 1 ? " worker, " : " workers, ") + sum(alive, "slots") + " slots");
        text("tq-dead", data.dead.toLocaleString());
        text("tq-buried", data.dead > data.letters.length ? "the newest " + data.letters.length : "");
        text("tq-found", data.found > data.tenants.length || data.more
            ? data.tenants.length + " of " + data.found + (data.more ? " or more" : "") : "");
        fill("tq-queues", data.queues, QUEUE, "No queue has taken a task yet.");
        fill("tq-tenants", data.tenants, TENANT,
            byId("tq-search").value ? "No tenant of that name." : "No tenant has work or settings.");
        fill("tq-letters", data.letters, LETTER, "No dead letters.");
    }

    function status(words, live) {
        text("tq-status", words);
        byId("tq-dot").className = "status-dot status-dot-" + (live ? "live" : "error");
        root.classList.toggle("tq-stale", !live);
    }

    function refresh() {
        var mine = ++asked;
        window.clearTimeout(timer);
        $.ajax({url: root.dataset.url, dataType: "json", timeout: 15000, data: {
            sort: byId("tq-sort").value, search: byId("tq-search").value
        }}).done(function (data) {
            if (mine === asked) {
                show(data);
                status((autorefresh ? "Live" : "Loaded") + " · " + new Date().toLocaleTimeString(), true);
            }
        }).fail(function (reply) {
            if (mine === asked) {
                status(refusal(reply) + "; trying again", false);
            }
        }).always(function () {
            if (mine === asked && (autorefresh || root.classList.contains("tq-stale"))) {
                timer = window.setTimeout(refresh, EVERY);
            }
        });
    }

    byId("tq-sort").addEventListener("change", refresh);
    byId("tq-search").addEventListener("input", refresh);
    refresh();
}());

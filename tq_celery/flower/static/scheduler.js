/* The Scheduler page: asks for the data every two seconds and shows it. */
(function () {
    "use strict";

    var EVERY = 2000,
        root = document.getElementById("scheduler"),
        readOnly = root.dataset.readOnly === "1",
        autorefresh = root.dataset.autorefresh === "1",
        open = new Set(),
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

    /* jQuery adds Flower's XSRF token to what changes something. */
    function act(path, values, done) {
        $.ajax({type: "POST", url: root.dataset.api + path, data: values}).done(function () {
            toast(done, false);
            refresh();
        }).fail(function (reply) {
            var said = reply.responseJSON ? reply.responseJSON.error : reply.responseText;
            toast(said || "Flower does not answer", true);
        });
    }

    function button(label, kind, press) {
        var element = make("button", label, {
            "type": "button", "class": "btn btn-sm btn-outline-" + kind + " ms-1"
        });
        element.addEventListener("click", press);
        return element;
    }

    function row(cells, buttons) {
        var element = make("tr"), last = make("td", null, {"class": "tq-right"});
        cells.forEach(function (cell) { element.appendChild(make("td", cell)); });
        if (!readOnly) {
            buttons.forEach(function (each) { last.appendChild(each); });
        }
        element.appendChild(last);
        return element;
    }

    function fill(id, rows, columns, empty) {
        if (!rows.length) {
            rows = [make("tr", make("td", empty, {
                "class": "empty-table-message", "colspan": columns
            }))];
        }
        byId(id).replaceChildren.apply(byId(id), rows);
    }

    function named(name, paused) {
        var element = make("span", name);
        if (paused) {
            element.appendChild(make("span", "paused", {"class": "badge text-bg-warning ms-2"}));
        }
        return element;
    }

    function queueRow(queue) {
        var verb = queue.paused ? "resume" : "pause";
        return row(
            [named(queue.queue, queue.paused), queue.submitted, queue.delayed, queue.pending,
                queue.dispatched, queue.running, queue.tenants, queue.workers, queue.slots],
            [button(queue.paused ? "Resume" : "Pause", "secondary", function () {
                act("queues/" + verb, {queue: queue.queue}, queue.queue + ": " + verb + "d");
            })]
        );
    }

    function shareCell(tenant) {
        var cell = make("div"), bar = make("div", make("i"), {"class": "tq-bar"});
        if (tenant.share === null) {
            return make("div", "—");
        }
        bar.firstChild.style.width = (tenant.share * 100) + "%";
        bar.appendChild(make("b")).style.left = "min(" + (tenant.fair * 100) + "%, 100% - 2px)";
        if (tenant.waiting && tenant.share < tenant.fair * 0.8) {
            bar.classList.add("tq-under");
        } else if (tenant.share > tenant.fair * 1.25) {
            bar.classList.add("tq-over");
        }
        cell.appendChild(bar);
        cell.appendChild(make("span", percent(tenant.share) + " / " + percent(tenant.fair)));
        return cell;
    }

    function tenantRow(tenant) {
        var verb = tenant.paused ? "resume" : "pause",
            flight = tenant.running + (tenant.max_running === null ? "" : " of " + tenant.max_running);
        return row(
            [named(tenant.tenant, tenant.paused), tenant.weight, tenant.waiting, flight,
                shareCell(tenant), age(tenant.p50), age(tenant.p95), age(tenant.oldest)],
            [button("Weight", "secondary", function () {
                var weight = window.prompt("Weight of " + tenant.tenant, tenant.weight);
                if (weight !== null) {
                    act("tenants/weight", {tenant: tenant.tenant, weight: weight},
                        tenant.tenant + ": weight " + weight);
                }
            }), button(tenant.paused ? "Resume" : "Pause", "secondary", function () {
                act("tenants/" + verb, {tenant: tenant.tenant}, tenant.tenant + ": " + verb + "d");
            })]
        );
    }

    function letterRow(letter) {
        var more = make("details", make("summary", letter.reason));
        more.open = open.has(letter.entry);
        more.appendChild(make("pre", letter.preview, {"class": "tq-preview"}));
        more.addEventListener("toggle", function () {
            if (more.open) {
                open.add(letter.entry);
            } else {
                open.delete(letter.entry);
            }
        });
        return row(
            [new Date(letter.at).toLocaleString(), named(letter.task || letter.id), letter.queue,
                letter.tenant, letter.attempts, more],
            letter.readable ? [button("Requeue", "primary", function () {
                act("dead/requeue", {entry: letter.entry}, "Requeued " + (letter.task || letter.id));
            })] : []
        );
    }

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
        text("tq-standbys", leader.standbys.length + " standing by");
        byId("tq-standbys").title = leader.standbys.join("\n");
        text("tq-waiting", (sum(data.queues, "submitted") + sum(data.queues, "pending")).toLocaleString());
        text("tq-delayed", sum(data.queues, "delayed").toLocaleString() + " delayed");
        text("tq-flight", (sum(data.queues, "dispatched") + sum(data.queues, "running")).toLocaleString());
        text("tq-workers", alive.length + " workers, " + sum(alive, "slots") + " free slots");
        text("tq-dead", data.dead.toLocaleString());
        text("tq-found", data.found > data.tenants.length || data.more
            ? data.tenants.length + " of " + data.found + (data.more ? " or more" : "") : "");
        fill("tq-queues", data.queues.map(queueRow), 10, "No queue has taken a task yet.");
        fill("tq-tenants", data.tenants.map(tenantRow), 9,
            byId("tq-search").value ? "No tenant of that name." : "No tenant has work or settings.");
        fill("tq-letters", data.letters.map(letterRow), 7, "No dead letters.");
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
                status((reply.responseJSON ? reply.responseJSON.error : "Flower does not answer") +
                    "; trying again", false);
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

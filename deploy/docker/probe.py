"""Health check of a container: exits with 0 when the address answers with 200, else with 1.

Run ``python probe.py http://localhost:9101/readyz``. Prints one line that says what was found,
which ``docker inspect`` keeps. The image has no curl, and needs none.
"""

from __future__ import annotations

import http.client
import sys
from urllib.parse import urlsplit

#: Seconds for an answer; less than the time that a health check is given.
TIMEOUT = 2.0


def probe(url: str) -> tuple[bool, str]:
    """Return whether the address answers with 200, and what it answers."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        return False, f"{url!r} is no address; write http://localhost:9101/readyz"
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT)
    try:
        connection.request("GET", parts.path or "/")
        answer = connection.getresponse()
        body = " ".join(answer.read(500).decode("utf-8", "replace").split())
    except (OSError, http.client.HTTPException) as error:
        return False, f"{url} does not answer: {error or type(error).__name__}"
    finally:
        connection.close()
    return answer.status == 200, f"{answer.status} {body}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: probe.py URL", file=sys.stderr)
        sys.exit(2)
    healthy, found = probe(sys.argv[1])
    print(found)
    sys.exit(0 if healthy else 1)

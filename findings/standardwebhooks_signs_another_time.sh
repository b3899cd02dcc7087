#!/bin/sh
# Version: standardwebhooks 1.1.0, which svix 2.9.1 also signs with
# Source: the signature of Webhook.sign(msg_id: str, timestamp: datetime, data: str). An aware datetime is one moment
#   in any time zone, and the header has the seconds of that moment.
# Behaviour: the time zone is replaced by UTC, not converted: the moment that is signed lies hours away from the one
#   that was passed. A message signed with UTC verifies; the same moment in another zone does not, and neither does
#   what datetime.now() returns on a machine that is not in UTC.
# Output seen:
#   standardwebhooks: UTC verifies, UTC+02:00 no matching signature, local no matching signature
#   svix: UTC verifies, UTC+02:00 no matching signature, local no matching signature
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile standardwebhooks==1.1.0 svix==2.9.1
TZ=Europe/Berlin "$folder/venv/bin/python" - <<'PYTHON'
from datetime import UTC, datetime, timedelta, timezone

import standardwebhooks
import svix

moment = datetime.now(UTC)
moments = {"UTC": moment, "UTC+02:00": moment.astimezone(timezone(timedelta(hours=2)))}
moments["local"] = datetime.fromtimestamp(moment.timestamp())
outcomes = []
for library in (standardwebhooks, svix):
    webhook = library.Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    for zone, same in moments.items():
        assert int(same.timestamp()) == int(moment.timestamp())
        headers = {"webhook-id": "m1", "webhook-timestamp": str(int(same.timestamp()))}
        headers["webhook-signature"] = webhook.sign("m1", same, '{"approval": "a1"}')
        try:
            webhook.verify('{"approval": "a1"}', headers)
            outcomes.append(f"{zone} verifies")
        except standardwebhooks.WebhookVerificationError as error:
            outcomes.append(f"{zone} {str(error).lower().removesuffix(' found')}")
    print(f"{library.__name__}: {', '.join(outcomes[-3:])}")
expected = ["UTC verifies", "UTC+02:00 no matching signature", "local no matching signature"]
assert outcomes == expected * 2, outcomes
PYTHON

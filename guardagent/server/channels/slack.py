"""Slack: a card for each approval, which stays up to date, with buttons for the members whom the settings name.

A card is rich text, which Slack shows as it is: no string of an agent becomes a mention, a link or formatting. Members
answer at `/v1/slack/interactions`, where each request has Slack's signature. Only the API of the settings is called.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from guardagent._support.http import RefusedError
from guardagent._support.requirements import require
from guardagent.errors import ForbiddenError, InputError, error_text
from guardagent.server.approvals import ApprovalRecord, shown
from guardagent.server.cards import CHOICES, SignedAnswer, card_of, page_address, read_token, take, tokens_of
from guardagent.server.channels import CARD, DeliveryError, OutboxMessage, post
from guardagent.server.service import RequestConflictError
from guardagent.server.service.guard_service import GuardService
from guardagent.server.settings import EVENTS, SlackSettings, is_among, secrets_in

require({"slack_sdk": "3.48"}, "slack")
from slack_sdk.models import blocks as slack  # noqa: E402 - a missing extra is reported before
from slack_sdk.signature import SignatureVerifier  # noqa: E402

VIA = "slack"
JSON = Mapping[str, Any]
_LONGEST, _LONGEST_CARD = 6000, 12_000  # characters of a part, and of all; Slack accepts some 13,000 in all blocks
_GONE = ("message_not_found", "cant_update_message")  # somebody deleted the card
_log = logging.getLogger("guardagent")


class SlackChannel:
    """A channel of Slack.

    Args:
        service: has the approvals.
        settings: the channel.

    Attributes:
        settings: the channel.
    """

    def __init__(self, service: GuardService, settings: SlackSettings) -> None:
        self._service, self.settings, self._state = service, settings, service.stores.state
        self.targets: tuple[str, ...] = (f"slack:{settings.channel}",)
        self.host, self.events, self.tenants = urlsplit(settings.api).hostname or "", EVENTS, settings.tenants

    def deliver(self, message: OutboxMessage, record: ApprovalRecord, version: int) -> None:
        """Posts the card of an approval that waits, or brings it up to date.

        Raises:
            InputError: a secret cannot be read.
            DeliveryError: Slack does not accept it, or another message has to post the card first.
            OSError: Slack cannot be reached.
        """
        tenant, approval = message.tenant, message.approval
        text = json.dumps([message.target, approval, record.created])
        name, posted = hashlib.sha256(text.encode()).hexdigest()[:40], 0
        while posted != version:  # another answer came while the card was on its way
            item, posted = self._state.get(CARD, tenant, name), version
            if item is not None:
                self._call("chat.update", {**item.value["place"], **self.card(tenant, approval, record, version)})
            elif record.status != "pending":
                return
            elif message.event != "approval.requested":
                raise DeliveryError("its card is not posted yet")
            else:
                card = {"channel": self.settings.channel, **self.card(tenant, approval, record, version)}
                answer = self._call("chat.postMessage", card)
                place = {"channel": answer["channel"], "ts": answer["ts"]}
                self._state.add(CARD, tenant, name, {"place": place, "created": record.created})
            record, version = self._service.approvals.read(tenant, approval)

    def card(self, tenant: str, approval: str, record: ApprovalRecord, version: int) -> dict[str, Any]:
        """Returns the text and the blocks of a card; a call that is too long to be read here cannot be approved here.

        Raises:
            InputError: a secret cannot be read.
        """
        card = card_of(self._service, tenant, shown(approval, version, record, time.time()))
        answers = self._service.settings.answers
        assert answers is not None  # as the settings require
        tokens = tokens_of(answers, tenant, approval, record, version, VIA)
        parts: list[Any] = []
        is_whole, left, text = True, _LONGEST_CARD, slack.RichTextElementParts.Text
        for title, lines in card.sections:
            most = max(1, min(_LONGEST, left))
            is_whole, left = is_whole and len(lines) <= most, left - len(lines)
            parts += [slack.RichTextSectionElement(elements=[text(text=title, style={"bold": True})])]
            parts += [slack.RichTextPreformattedElement(elements=[text(text=lines[:most])])]
        url = page_address(self._service, approval)
        link = "Open the page" if is_whole or not tokens else "Too long for Slack: approve it on its page"
        parts += [slack.RichTextSectionElement(elements=[slack.RichTextElementParts.Link(url=url, text=link)])]
        blocks: list[Any] = [slack.HeaderBlock(text=slack.PlainTextObject(text=card.title[:150], emoji=False))]
        blocks += [slack.RichTextBlock(elements=parts)]
        if tokens:
            label, field = "Why not? The agent reads this.", slack.PlainTextInputElement(action_id="reason")
            blocks += [slack.InputBlock(label=label, element=field, block_id="reason", optional=True)]
            buttons = [
                slack.ButtonElement(text=choice.title(), action_id=choice, value=tokens[choice], style=_STYLES[choice])
                for choice in CHOICES
                if is_whole or choice == "reject"
            ]
            blocks += [slack.ActionsBlock(elements=buttons)]
        content = {"text": _escaped(card.title), "blocks": [block.to_dict() for block in blocks]}
        return {**content, "unfurl_links": False, "unfurl_media": False}

    def has_signed(self, body: bytes, headers: Mapping[str, str]) -> bool:
        """Whether Slack has signed a request for this app in the last five minutes.

        Raises:
            InputError: the secret cannot be read.
        """
        try:
            verifier = SignatureVerifier(secrets_in(self.settings.signing_secret_file)[0])
            return verifier.is_valid_request(body, dict(headers))
        except (ValueError, TypeError):  # of a header that is not a number or not ASCII, or another body than text
            return False

    def approver(self, user: JSON, tenant: str) -> str:
        """Returns the approver that a member of Slack is.

        Raises:
            ForbiddenError: the member is unknown, or the tenant is.
        """
        settings, name = self.settings, str(user["id"])
        if not is_among(tenant, self.tenants):
            raise ForbiddenError("approvals of this tenant are not answered here any more")
        if settings.team and user.get("team_id") != settings.team:
            raise ForbiddenError("members of other workspaces may not answer")
        if name not in settings.users:
            raise ForbiddenError(f"you may not answer yet: ask for a line '{name}: YOUR-ID' in 'users' of 'slack'")
        return settings.users[name]

    def correct(self, place: JSON, user: JSON, problem: str, stale: SignedAnswer | None) -> None:
        """Shows a member alone why an answer was not taken, and brings a stale card up to date."""
        channel = place["channel_id"]
        try:
            self._call("chat.postEphemeral", {"channel": channel, "user": user["id"], "text": _escaped(problem)})
            if stale is not None:
                record, version = self._service.approvals.read(stale.tenant, stale.approval)
                card = self.card(stale.tenant, stale.approval, record, version)
                self._call("chat.update", {"channel": channel, "ts": place["message_ts"], **card})
        except Exception as error:  # noqa: BLE001 - nobody waits for this
            _log.warning("Slack does not show why an answer was not taken: %s", error_text(error)[:200])

    def _call(self, method: str, content: JSON) -> JSON:
        token = secrets_in(self.settings.token_file)[0]
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json; charset=utf-8"}
        answer = json.loads(post(f"{self.settings.api.rstrip('/')}/{method}", json.dumps(content).encode(), headers))
        if answer["ok"] is not True and answer["error"] not in _GONE:
            raise DeliveryError(f"Slack answers {str(answer['error'])[:80]!r} to {method}")
        return dict(answer)


_STYLES = {"approve": "primary", "reject": "danger"}


def interact(service: GuardService, body: bytes, headers: Mapping[str, str]) -> Callable[[], None] | None:
    """Takes what a member of Slack does with a card.

    Returns:
        what to do after Slack, which waits for three seconds at most, has its answer; None if nothing is to be done.

    Raises:
        RefusedError: the request is not signed by Slack, or is not an interaction.
        GuardError: the answer cannot be taken at present.
    """
    channels = [channel for channel in service.channels.channels if isinstance(channel, SlackChannel)]
    channels = [channel for channel in channels if channel.has_signed(body, headers)]
    if not channels:
        raise RefusedError(401, "the request is not signed by Slack, or is older than five minutes")
    try:
        payload = json.loads(parse_qs(body.decode(), strict_parsing=True)["payload"][0])
        if payload["type"] != "block_actions" or payload["actions"][0]["action_id"] not in CHOICES:
            return None
        user, place, token = payload["user"], payload["container"], str(payload["actions"][0]["value"])
        reason = payload.get("state", {}).get("values", {}).get("reason", {}).get("reason", {}).get("value")
        user["id"], place["channel_id"], place["message_ts"]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise RefusedError(400, "the payload is not an interaction with a card") from None
    channel, stale = channels[0], None
    try:
        assert service.settings.answers is not None  # as the settings require
        answer = read_token(service.settings.answers, token, VIA)
        stale, name = answer, str(user["id"])
        channel = min(
            channels, key=lambda each: (not is_among(answer.tenant, each.tenants), name not in each.settings.users)
        )
        take(service, answer, channel.approver(user, answer.tenant), str(reason or ""))
    except RequestConflictError as error:
        return partial(channel.correct, place, user, str(error), stale)
    except (InputError, ForbiddenError) as error:
        return partial(channel.correct, place, user, str(error), None)
    return None


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

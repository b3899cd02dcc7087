"""E-mails about approvals. Each receiver gets links of their own, which lead to a page of the console with buttons.

The link is the credential: whoever reads the e-mail may answer, as the settings map its address to an approver. Opening
it changes nothing, since mail scanners open links.
"""

from __future__ import annotations

import smtplib
import ssl
import time
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from guardagent._support.http import is_loopback
from guardagent.errors import ForbiddenError, InputError
from guardagent.server.approvals import ApprovalRecord, shown
from guardagent.server.cards import card_of, page_address, read_token, take, tokens_of
from guardagent.server.channels import SEND_SECONDS, OutboxMessage
from guardagent.server.console import PREFIX, ShownPage, render
from guardagent.server.http import error_answer
from guardagent.server.service import RequestConflictError
from guardagent.server.service.guard_service import GuardService
from guardagent.server.settings import EmailSettings, is_among, secrets_in

VIA = "email"
_MAILTO = "mailto:"
_PORTS = {"smtp": 587, "smtps": 465}


class EmailChannel:
    """A mail server, and who gets e-mails.

    Args:
        service: has the approvals.
        settings: the mail server and the people.
    """

    def __init__(self, service: GuardService, settings: EmailSettings) -> None:
        self._service, self._settings, self._smtp = service, settings, urlsplit(settings.smtp)
        self.targets = tuple(f"{_MAILTO}{address}" for address in settings.to)
        self.host, self.events, self.tenants = self._smtp.hostname or "", settings.events, settings.tenants

    def deliver(self, message: OutboxMessage, record: ApprovalRecord, version: int) -> None:
        """Sends an e-mail to one receiver.

        Raises:
            InputError: a secret cannot be read.
            smtplib.SMTPException, OSError: the mail server cannot be reached, or does not accept it.
        """
        answers, to = self._service.settings.answers, message.target.removeprefix(_MAILTO)
        assert answers is not None  # as the settings require
        about = message.tenant, message.approval, record, version
        tokens = tokens_of(answers, *about, VIA, self._settings.to[to])
        card = card_of(self._service, message.tenant, shown(message.approval, version, record, time.time()))
        address = f"{self._service.settings.console.address}{PREFIX}/answer"
        links = {choice: f"{address}?token={token}" for choice, token in tokens.items()}
        values = {"card": card, "links": links, "page": page_address(self._service, message.approval)}
        mail = EmailMessage()
        mail["Subject"], mail["From"], mail["To"] = card.title, self._settings.from_, to
        mail["Date"], mail["Message-ID"] = formatdate(message.stored), f"<{message.id}@guardagent>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(render("email.txt", values))
        mail.add_alternative(render("email.html", values), subtype="html")
        self._send(mail)

    def _send(self, mail: EmailMessage) -> None:
        address = self.host, self._smtp.port or _PORTS[self._smtp.scheme]
        has_tls, context = self._smtp.scheme == "smtps", ssl.create_default_context()
        connect = partial(smtplib.SMTP_SSL, context=context) if has_tls else smtplib.SMTP
        with connect(*address, timeout=SEND_SECONDS) as server:
            if not has_tls and not is_loopback(self.host):
                server.starttls(context=context)
            if self._settings.password_file is not None:
                server.login(self._settings.user, secrets_in(self._settings.password_file)[0])
            server.send_message(mail)


# --- the page of a link


def answer_page(service: GuardService, token: str, form: Mapping[str, str] | None) -> ShownPage:
    """Returns the page of a link, and first takes the answer if its form is sent.

    Args:
        service: has the approvals.
        token: the token of the link, or of the form.
        form: the fields of the form; None if the link is only opened.

    Raises:
        ForbiddenError: the link is not valid, has expired, or its approver may not answer any more.
        UnknownItemError: there is no such approval any more.
    """
    settings, status, problem = service.settings.answers, 200, ""
    if settings is None:
        raise ForbiddenError("this server has no 'answers' in its settings, so no link is valid")
    answer = read_token(settings, token, VIA)
    groups = [mail.to.values() for mail in service.settings.email if is_among(answer.tenant, mail.tenants)]
    if not any(answer.by in approvers for approvers in groups):
        raise ForbiddenError("this link is not valid any more: its approver gets no e-mails of this server now")
    if form is not None:
        try:
            take(service, answer, answer.by, form.get("reason", ""))
        except (RequestConflictError, ForbiddenError, InputError) as error:
            status, body, _ = error_answer(error, has_verdict=False)
            problem = body["error"]["message"]
    record, version = service.approvals.read(answer.tenant, answer.approval)
    about, is_shown = (answer.tenant, answer.approval, record, version), answer.version == version
    values: dict[str, Any] = {
        "card": card_of(service, answer.tenant, shown(answer.approval, version, record, time.time())),
        "tokens": tokens_of(settings, *about, VIA, answer.by) if is_shown else {},
        "answer": answer,
        "problem": problem,
        "is_taken": form is not None and not problem,
        "reason": (form or {}).get("reason", ""),
    }
    return ShownPage("answer.html", values, status)

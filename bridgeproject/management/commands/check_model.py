import asyncio
import os
import sys
from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandError, CommandParser

from bridgeproject.calling import GatewayClient, Unusable
from translator.checking import AT_ONCE, Outcome, check_model
from translator.core.model_checks.checks import CHECKS
from translator.core.model_checks.conclusion import Conclusion, Readiness, conclude

BAD_USE = 2


class Command(BaseCommand):
    help = (
        "Check what the model behind an alias can do for Claude Code, through a running gateway. "
        "Exit status: 0 if nothing failed that Claude Code needs, 1 if something did, 2 if nothing could be asked."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("alias")
        parser.add_argument("--url", default="http://127.0.0.1:8000", help="where the gateway is")
        parser.add_argument(
            "--token-env", default="BRIDGE_TOKEN", metavar="VAR", help="the environment variable with a client token"
        )
        parser.add_argument("--json", action="store_true", help="a JSON object a line, the conclusion last")

    def handle(self, *args: Any, alias: str, url: str, token_env: str, json: bool, **options: Any) -> None:
        token = os.environ.get(token_env, "").strip()
        if not token.isascii() or not token.isprintable() or not token:
            msg = f"put a client token into the environment variable {token_env}"
            raise CommandError(msg, returncode=BAD_USE)
        try:
            conclusion = asyncio.run(self._check(alias, url.rstrip("/"), token, as_json=json))
        except (Unusable, ValueError) as exc:
            raise CommandError(str(exc), returncode=BAD_USE) from exc
        if conclusion.readiness is Readiness.UNUSABLE:
            sys.exit(1)

    async def _check(self, alias: str, url: str, token: str, *, as_json: bool) -> Conclusion:
        verdicts = {}
        async with GatewayClient(url, token) as client:
            await client.expect_alias(alias)
            if not as_json:
                self.stdout.write(f"{len(CHECKS)} requests to {alias}, {AT_ONCE} at once")
            async for outcome in check_model(alias, client.ask):
                verdicts[outcome.check.name] = outcome.finding.verdict
                self._tell(outcome, as_json=as_json)
        conclusion = conclude(verdicts)
        self._tell_conclusion(alias, conclusion, as_json=as_json)
        return conclusion

    def _tell(self, outcome: Outcome, *, as_json: bool) -> None:
        check, heard, finding = outcome.check, outcome.heard, outcome.finding
        if as_json:
            told = {
                "check": check.name,
                "need": check.need.name.lower(),
                "verdict": finding.verdict,
                "seen": finding.seen,
                "advice": finding.advice,
                "request_id": heard.request_id,
                "served_by": heard.served_by,
            }
            self.stdout.write(orjson.dumps(told).decode())
            return
        advice = f". {finding.advice}" if finding.advice else ""
        self.stdout.write(f"{finding.verdict:<8}{check.title}: {finding.seen.rstrip('.')}{advice}")

    def _tell_conclusion(self, alias: str, conclusion: Conclusion, *, as_json: bool) -> None:
        if as_json:
            told = {"readiness": conclusion.readiness, "because": [check.name for check in conclusion.because]}
            self.stdout.write(orjson.dumps(told).decode())
            return
        because = ", ".join(check.title for check in conclusion.because)
        self.stdout.write(f"{alias} is {conclusion.readiness}{f' (not passed: {because})' if because else ''}")

"""Sums by member and sums by credential in tables of their own, so that each stays small.

Sums of both at once stay by day, without times. Those by hour and member are added up anew from what is there.
"""

from typing import Any

import django.contrib.postgres.fields
from django.db import migrations, models

MEMBER = "user_id, user_name, team_id, team_name, token_id, token_name, alias"
UPSTREAM = "upstream_id, upstream_name, upstream_model"
CREDENTIAL = "credential_id, credential_label"
CLIENT = "client_name, client_version"
END = "state, error_type"
BY_MEMBER = f"{MEMBER}, {UPSTREAM}, {CLIENT}, {END}"
BY_CREDENTIAL = f"{UPSTREAM}, {CREDENTIAL}, {END}"
BY_BOTH = f"{MEMBER}, {UPSTREAM}, {CREDENTIAL}, {CLIENT}, {END}"
SUMS = (
    "requests", "attempts", "streams", "estimated", "estimated_tokens", "unpriced", "input_tokens",
    "cache_read_tokens", "cache_write_tokens", "output_tokens", "thinking_tokens", "cost_nano",
)  # fmt: skip
TIMES = ("ttft_histogram", "duration_histogram")
BUCKETS = 34


def added_up(source: str, into: str, span: str, groups: str, times: tuple[str, ...] = TIMES) -> str:
    sums = ", ".join(f"sum({name})" for name in SUMS)
    buckets = (
        f"ARRAY[{', '.join(f'coalesce(sum({name}[{n}]), 0)::int' for n in range(1, BUCKETS + 1))}]" for name in times
    )
    return f"""
    INSERT INTO {into} (key, {span}, {", ".join((groups, *SUMS, *times))})
    SELECT md5(ROW({groups})::text)::uuid, {span}, {", ".join((groups, sums, *buckets))}
    FROM {source} GROUP BY {span}, {groups};"""  # noqa: S608  (names are our own)


# A worker of the version before can't settle any more after this: what it has goes to its spool, and from there to
# a worker of this version.
MOVE = f"""
LOCK TABLE usage_usagehour, usage_usageday IN ACCESS EXCLUSIVE MODE;
CREATE TEMPORARY TABLE old_hour ON COMMIT DROP AS SELECT * FROM usage_usagehour;
CREATE TEMPORARY TABLE old_day ON COMMIT DROP AS SELECT * FROM usage_usageday;
TRUNCATE usage_usagehour, usage_usageday;
ALTER TABLE usage_usagehour DROP COLUMN credential_id, DROP COLUMN credential_label;
ALTER TABLE usage_usageday DROP COLUMN credential_id, DROP COLUMN credential_label;
{added_up("old_hour", "usage_usagehour", "hour", BY_MEMBER)}
{added_up("old_day", "usage_usageday", "day", BY_MEMBER)}
{added_up("old_day", "usage_credentialday", "day", BY_CREDENTIAL)}
{added_up("old_day", "usage_crossedday", "day", BY_BOTH, ())}
ALTER TABLE usage_credentialday SET (fillfactor = 50);
ALTER TABLE usage_crossedday SET (fillfactor = 50);
"""  # noqa: S608  (names are our own)


def sums(*groups: tuple[str, Any], times: bool) -> list[tuple[str, Any]]:
    histogram = django.contrib.postgres.fields.ArrayField
    return [
        ("key", models.UUIDField()),
        ("upstream_id", models.BigIntegerField(null=True)),
        ("upstream_name", models.CharField(max_length=150)),
        ("upstream_model", models.CharField(max_length=200)),
        ("state", models.CharField(max_length=16)),
        ("error_type", models.CharField(max_length=64)),
        *((name, models.BigIntegerField(default=0)) for name in SUMS),
        *((name, histogram(base_field=models.IntegerField())) for name in TIMES if times),
        ("credential_id", models.BigIntegerField(null=True)),
        ("credential_label", models.CharField(max_length=150)),
        *groups,
        (
            "pk",
            models.CompositePrimaryKey("day", "key", blank=True, editable=False, primary_key=True, serialize=False),
        ),
        ("day", models.DateTimeField()),
    ]


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0011_conversation_summaries"),
    ]

    operations = [
        migrations.CreateModel(
            name="CredentialDay",
            fields=sums(times=True),
            options={"verbose_name": "day of a credential", "verbose_name_plural": "days of credentials"},
        ),
        migrations.CreateModel(
            name="CrossedDay",
            fields=sums(
                ("user_id", models.BigIntegerField(null=True)),
                ("user_name", models.CharField(max_length=150)),
                ("team_id", models.BigIntegerField(null=True)),
                ("team_name", models.CharField(max_length=150)),
                ("token_id", models.BigIntegerField(null=True)),
                ("token_name", models.CharField(max_length=150)),
                ("alias", models.CharField(max_length=200)),
                ("client_name", models.CharField(max_length=64)),
                ("client_version", models.CharField(max_length=32)),
                times=False,
            ),
            options={
                "verbose_name": "day of a member with a credential",
                "verbose_name_plural": "days of members with credentials",
            },
        ),
        migrations.RunSQL(
            MOVE,
            migrations.RunSQL.noop,
            state_operations=[
                migrations.RemoveField(model, field)
                for model in ("usagehour", "usageday")
                for field in ("credential_id", "credential_label")
            ],
        ),
    ]

"""The ledger's tables; that of the records is partitioned by month of its id."""

import django.contrib.postgres.fields
import django.db.models.functions.datetime
from django.apps.registry import Apps as StateApps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils import timezone

import usage.ids
import usage.partitions

PARTITION = """
ALTER TABLE usage_usagerecord RENAME TO usage_usagerecord_plain;
CREATE TABLE usage_usagerecord (LIKE usage_usagerecord_plain INCLUDING ALL) PARTITION BY RANGE (id);
DROP TABLE usage_usagerecord_plain;
"""


def make_partitions(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    usage.partitions.make_partitions(schema_editor.connection, timezone.now())


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="UsageHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hour", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("key", models.UUIDField()),
                ("user_id", models.BigIntegerField(null=True)),
                ("user_name", models.CharField(max_length=150)),
                ("team_id", models.BigIntegerField(null=True)),
                ("team_name", models.CharField(max_length=150)),
                ("token_id", models.BigIntegerField(null=True)),
                ("token_name", models.CharField(max_length=150)),
                ("alias", models.CharField(max_length=200)),
                ("upstream_id", models.BigIntegerField(null=True)),
                ("upstream_name", models.CharField(max_length=150)),
                ("upstream_model", models.CharField(max_length=200)),
                ("credential_id", models.BigIntegerField(null=True)),
                ("credential_label", models.CharField(max_length=150)),
                ("client_name", models.CharField(max_length=64)),
                ("client_version", models.CharField(max_length=32)),
                ("state", models.CharField(max_length=16)),
                ("error_type", models.CharField(max_length=64)),
                ("requests", models.BigIntegerField(default=0)),
                ("attempts", models.BigIntegerField(default=0)),
                ("streams", models.BigIntegerField(default=0)),
                ("estimated", models.BigIntegerField(default=0)),
                ("estimated_tokens", models.BigIntegerField(default=0)),
                ("unpriced", models.BigIntegerField(default=0)),
                ("input_tokens", models.BigIntegerField(default=0)),
                ("cache_read_tokens", models.BigIntegerField(default=0)),
                ("cache_write_tokens", models.BigIntegerField(default=0)),
                ("output_tokens", models.BigIntegerField(default=0)),
                ("thinking_tokens", models.BigIntegerField(default=0)),
                ("cost_nano", models.BigIntegerField(default=0)),
                ("ttft_histogram", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField())),
                ("duration_histogram", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField())),
            ],
            options={
                "verbose_name": "hour of usage",
                "verbose_name_plural": "hours of usage",
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=150, unique=True)),
                (
                    "subject",
                    models.CharField(
                        choices=[("token", "client token"), ("user", "user"), ("team", "team")], max_length=8
                    ),
                ),
                ("subject_id", models.BigIntegerField()),
                (
                    "period",
                    models.CharField(
                        choices=[
                            ("hour", "hour"),
                            ("day", "day"),
                            ("week", "week"),
                            ("month", "month"),
                            ("total", "in all"),
                        ],
                        default="month",
                        max_length=8,
                    ),
                ),
                ("unit", models.CharField(choices=[("usd", "USD"), ("tokens", "tokens")], default="usd", max_length=8)),
                ("enabled", models.BooleanField(default=True)),
                ("limit", models.BigIntegerField()),
                ("spent", models.BigIntegerField(default=0, editable=False)),
                ("reserved", models.BigIntegerField(default=0, editable=False)),
                (
                    "period_start",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "warn_percents",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveSmallIntegerField(), blank=True, default=list
                    ),
                ),
                ("warned_percent", models.PositiveSmallIntegerField(default=0, editable=False)),
            ],
            options={
                "ordering": ["name"],
                "indexes": [models.Index(fields=["subject", "subject_id"], name="usage_budget_subject")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("limit__gte", 0), ("reserved__gte", 0), ("spent__gte", 0)),
                        name="usage_budget_not_negative",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Price",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "upstream_id",
                    models.BigIntegerField(blank=True, help_text="Empty: this model at any upstream.", null=True),
                ),
                ("upstream_model", models.CharField(max_length=200)),
                ("valid_from", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("input_price", models.BigIntegerField(help_text="1e-6 USD per million tokens.")),
                ("output_price", models.BigIntegerField(help_text="1e-6 USD per million tokens.")),
                ("cache_read_price", models.BigIntegerField(blank=True, help_text="Empty: as input.", null=True)),
                ("cache_write_price", models.BigIntegerField(blank=True, help_text="Empty: as input.", null=True)),
                ("thinking_price", models.BigIntegerField(blank=True, help_text="Empty: as output.", null=True)),
                ("origin", models.CharField(blank=True, max_length=150)),
            ],
            options={
                "ordering": ["upstream_model", "-valid_from"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("upstream_model", "upstream_id", "valid_from"),
                        name="usage_price_dated_once",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("input_price__gte", 0),
                            ("output_price__gte", 0),
                            models.Q(("cache_read_price__isnull", True), ("cache_read_price__gte", 0), _connector="OR"),
                            models.Q(
                                ("cache_write_price__isnull", True), ("cache_write_price__gte", 0), _connector="OR"
                            ),
                            models.Q(("thinking_price__isnull", True), ("thinking_price__gte", 0), _connector="OR"),
                        ),
                        name="usage_price_not_negative",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="UsageRecord",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=usage.ids.new_record_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("request_id", models.CharField(max_length=64)),
                ("attempt", models.PositiveSmallIntegerField(default=1)),
                ("worker", models.CharField(max_length=64)),
                ("started_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("settled_at", models.DateTimeField(null=True)),
                ("ttft_ms", models.IntegerField(null=True, verbose_name="TTFT (ms)")),
                ("duration_ms", models.IntegerField(null=True, verbose_name="duration (ms)")),
                ("user_id", models.BigIntegerField(null=True)),
                ("user_name", models.CharField(max_length=150, verbose_name="user")),
                ("team_id", models.BigIntegerField(null=True)),
                ("team_name", models.CharField(max_length=150, verbose_name="team")),
                ("token_id", models.BigIntegerField(null=True)),
                ("token_name", models.CharField(max_length=150, verbose_name="client token")),
                ("alias", models.CharField(max_length=200)),
                ("upstream_id", models.BigIntegerField(null=True)),
                ("upstream_name", models.CharField(max_length=150, verbose_name="upstream")),
                ("upstream_model", models.CharField(max_length=200)),
                ("credential_id", models.BigIntegerField(null=True)),
                ("credential_label", models.CharField(max_length=150, verbose_name="credential")),
                ("client_name", models.CharField(max_length=64, verbose_name="client")),
                ("client_version", models.CharField(max_length=32)),
                ("session_id", models.CharField(max_length=128)),
                ("stream", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("ok", "ok"),
                            ("client_gone", "client gone"),
                            ("upstream_error", "upstream error"),
                            ("truncated", "truncated"),
                            ("timeout", "timeout"),
                            ("refused", "refused"),
                            ("lost", "lost"),
                        ],
                        default="open",
                        max_length=16,
                    ),
                ),
                (
                    "source",
                    models.CharField(
                        choices=[
                            ("upstream", "upstream"),
                            ("partial", "partial"),
                            ("estimated", "estimated"),
                            ("unknown", "unknown"),
                        ],
                        default="unknown",
                        max_length=16,
                        verbose_name="usage source",
                    ),
                ),
                ("http_status", models.SmallIntegerField(null=True, verbose_name="HTTP status")),
                ("error_type", models.CharField(max_length=64)),
                ("stop_reason", models.CharField(max_length=64)),
                ("notes", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list)),
                ("input_tokens", models.BigIntegerField(default=0)),
                ("cache_read_tokens", models.BigIntegerField(default=0)),
                ("cache_write_tokens", models.BigIntegerField(default=0)),
                ("output_tokens", models.BigIntegerField(default=0)),
                ("thinking_tokens", models.BigIntegerField(default=0)),
                ("cost_nano", models.BigIntegerField(null=True, verbose_name="cost (1e-9 USD)")),
                ("price_version", models.BigIntegerField(null=True)),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "open",
                                    "ok",
                                    "client_gone",
                                    "upstream_error",
                                    "truncated",
                                    "timeout",
                                    "refused",
                                    "lost",
                                ],
                            )
                        ),
                        name="usage_record_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("source__in", ["upstream", "partial", "estimated", "unknown"])),
                        name="usage_record_source_known",
                    ),
                    models.CheckConstraint(condition=models.Q(("attempt__gte", 1)), name="usage_record_attempt_from_1"),
                    models.CheckConstraint(
                        condition=models.Q(("state", "open"), ("settled_at__isnull", False), _connector="OR"),
                        name="usage_record_settled_at_set",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("cache_read_tokens__gte", 0),
                            ("cache_write_tokens__gte", 0),
                            ("input_tokens__gte", 0),
                            ("output_tokens__gte", 0),
                            ("thinking_tokens__gte", 0),
                            ("thinking_tokens__lte", models.F("output_tokens")),
                        ),
                        name="usage_record_tokens_sane",
                    ),
                ],
            },
        ),
        migrations.RunSQL(PARTITION, migrations.RunSQL.noop),
        migrations.AddIndex("usagerecord", models.Index(fields=["user_id", "id"], name="usage_record_user")),
        migrations.AddIndex("usagerecord", models.Index(fields=["token_id", "id"], name="usage_record_token")),
        migrations.AddIndex("usagerecord", models.Index(fields=["upstream_model", "id"], name="usage_record_model")),
        migrations.AddIndex(
            "usagerecord", models.Index(fields=["credential_id", "id"], name="usage_record_credential")
        ),
        migrations.AddIndex(
            "usagerecord",
            models.Index(
                condition=models.Q(("state", "ok"), _negated=True), fields=["state", "id"], name="usage_record_state"
            ),
        ),
        migrations.AddIndex(
            "usagerecord",
            models.Index(
                condition=models.Q(("session_id", ""), _negated=True),
                fields=["session_id", "id"],
                name="usage_record_session",
            ),
        ),
        migrations.RunPython(make_partitions, migrations.RunPython.noop),
    ]

"""The right to see every team's usage, and a history of the pool's states."""
# ruff: noqa: S608  (no input goes into these statements)

import django.db.models.functions.datetime
from django.db import migrations, models

# The tables of states stay as they are: what writes them knows nothing of this history.
TRIGGERS = """
CREATE FUNCTION usage_note_credential_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    now_is record := coalesce(NEW, OLD);
    is_forgotten boolean := TG_OP = 'DELETE';
BEGIN
    INSERT INTO usage_poolchange
        (upstream_id, upstream_name, credential_id, credential_label, model_name, state, cause, until)
    SELECT u.id, u.name, c.id, c.label, now_is.model_name,
        CASE WHEN is_forgotten THEN 'ready' ELSE now_is.state END, CASE WHEN is_forgotten THEN '' ELSE now_is.cause END,
        CASE WHEN NOT is_forgotten AND now_is.state <> 'ready' THEN now_is.until END
    FROM keys_credential AS c JOIN keys_upstream AS u ON u.id = c.upstream_id WHERE c.id = now_is.credential_id;
    RETURN NULL;
END
$$;

CREATE FUNCTION usage_note_upstream_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    now_is record := coalesce(NEW, OLD);
    is_forgotten boolean := TG_OP = 'DELETE';
BEGIN
    INSERT INTO usage_poolchange (upstream_id, upstream_name, credential_label, model_name, state, cause, until)
    SELECT u.id, u.name, '', now_is.model_name,
        CASE WHEN is_forgotten THEN 'ready' ELSE now_is.state END, CASE WHEN is_forgotten THEN '' ELSE now_is.cause END,
        CASE WHEN NOT is_forgotten AND now_is.state <> 'ready' THEN now_is.until END
    FROM keys_upstream AS u WHERE u.id = now_is.upstream_id;
    RETURN NULL;
END
$$;
""" + "".join(
    f"""
CREATE TRIGGER usage_note_insert AFTER INSERT ON {table} FOR EACH ROW WHEN (NEW.state <> 'ready')
    EXECUTE FUNCTION {function}();
CREATE TRIGGER usage_note_update AFTER UPDATE ON {table} FOR EACH ROW
    WHEN (OLD.state <> NEW.state
        OR (NEW.state <> 'ready' AND (OLD.cause <> NEW.cause OR OLD.until IS DISTINCT FROM NEW.until)))
    EXECUTE FUNCTION {function}();
CREATE TRIGGER usage_note_delete AFTER DELETE ON {table} FOR EACH ROW WHEN (OLD.state <> 'ready')
    EXECUTE FUNCTION {function}();
"""
    for table, function in (
        ("keys_credentialstate", "usage_note_credential_change"),
        ("keys_upstreamstate", "usage_note_upstream_change"),
    )
)

DROP_TRIGGERS = """
DROP FUNCTION usage_note_credential_change() CASCADE;
DROP FUNCTION usage_note_upstream_change() CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0002_budgets_leases_days"),
        ("keys", "0002_notify_on_change"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="usagerecord",
            options={"ordering": ["-id"], "permissions": [("view_all_usage", "Can view the usage of every team")]},
        ),
        migrations.CreateModel(
            name="PoolChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("upstream_id", models.BigIntegerField()),
                ("upstream_name", models.CharField(max_length=150, verbose_name="upstream")),
                ("credential_id", models.BigIntegerField(null=True)),
                ("credential_label", models.CharField(max_length=150, verbose_name="credential")),
                ("model_name", models.CharField(max_length=200, verbose_name="model")),
                ("state", models.CharField(max_length=16)),
                ("cause", models.CharField(max_length=32)),
                ("until", models.DateTimeField(null=True)),
                (
                    "changed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["changed_at"], name="usage_poolchange_changed_at")],
            },
        ),
        migrations.RunSQL(TRIGGERS, DROP_TRIGGERS),
    ]

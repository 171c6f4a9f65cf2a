"""Tell the workers when a row changes, and clear an upstream's secrets when its base URL changes.

Notices are hints: a worker that misses one finds the change by polling.
"""

from django.conf import settings
from django.db import migrations

#: Tables whose every change matters to the directory; other columns of the second kind change all the time.
WHOLE_TABLES = (
    "keys_upstream",
    "keys_credential",
    "keys_upstreammodel",
    "keys_route",
    "keys_routetarget",
    "auth_group",
    "auth_user_groups",
)
SOME_COLUMNS = {
    "keys_clienttoken": "user_id, name, digest, scopes, rpm, tpm, concurrency, expires_at, revoked_at",
    "auth_user": "username, is_active",
}
STATE_TABLES = ("keys_credentialstate", "keys_upstreamstate")
STATE_COLUMNS = "state, until, cause, failures, changed_at"


def _trigger(table: str, function: str, columns: str = "") -> str:
    update = f"UPDATE OF {columns}" if columns else "UPDATE"
    return (
        f"CREATE TRIGGER bridge_notice AFTER INSERT OR DELETE OR TRUNCATE OR {update} ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {function}();"
    )


FUNCTIONS = """
CREATE FUNCTION bridge_notify_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('bridge_keys', ''); RETURN NULL; END $$;
CREATE FUNCTION bridge_notify_states() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('bridge_states', ''); RETURN NULL; END $$;
CREATE FUNCTION bridge_clear_secrets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE keys_credential SET sealed_secret = '', last_four = '' WHERE upstream_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER bridge_clear_secrets AFTER UPDATE OF base_url ON keys_upstream
FOR EACH ROW WHEN (OLD.base_url IS DISTINCT FROM NEW.base_url) EXECUTE FUNCTION bridge_clear_secrets();
"""

CREATE = FUNCTIONS + "\n".join(
    [
        *(_trigger(table, "bridge_notify_keys") for table in WHOLE_TABLES),
        *(_trigger(table, "bridge_notify_keys", columns) for table, columns in SOME_COLUMNS.items()),
        *(_trigger(table, "bridge_notify_states", STATE_COLUMNS) for table in STATE_TABLES),
    ]
)
DROP = "\n".join(
    [
        *(f"DROP TRIGGER bridge_notice ON {table};" for table in (*WHOLE_TABLES, *SOME_COLUMNS, *STATE_TABLES)),
        "DROP TRIGGER bridge_clear_secrets ON keys_upstream;",
        "DROP FUNCTION bridge_notify_keys, bridge_notify_states, bridge_clear_secrets;",
    ]
)


class Migration(migrations.Migration):
    dependencies = [
        ("keys", "0001_create_upstreams_and_tokens"),
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [migrations.RunSQL(CREATE, DROP)]

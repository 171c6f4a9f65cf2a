"""Write every change of rights and secrets into the audit log, and keep that log as it was written.

Triggers see what the admin does, and commands, bulk updates and plain SQL too. The middleware says who acts by two
settings of the connection.
"""

from django.conf import settings
from django.db import migrations

#: Table -> what it is called in the log. A row's name comes from `bridge_audit_name`.
WATCHED = {
    "keys_upstream": "upstream",
    "keys_credential": "credential",
    "keys_route": "route",
    "keys_routetarget": "route target",
    "keys_clienttoken": "client token",
    "usage_budget": "budget",
    "usage_price": "price",
    "auth_user": "user",
    "auth_group": "group",
    "auth_user_groups": "group membership",
    "auth_user_user_permissions": "permission of a user",
    "auth_group_permissions": "permission of a group",
    "otp_totp_totpdevice": "second factor",
    "otp_static_staticdevice": "backup codes",
}
#: Tables with columns that change all the time: only changes of these columns count.
COLUMNS = {
    "keys_clienttoken": "user_id, name, digest, scopes, rpm, tpm, concurrency, expires_at, revoked_at",
    "usage_budget": 'name, subject, subject_id, period, unit, enabled, "limit", '
    "warn_percents, warn_emails, warn_webhook",
    "auth_user": "username, password, email, is_active, is_staff, is_superuser",
    "otp_totp_totpdevice": "user_id, name, confirmed, key",
    "otp_static_staticdevice": "user_id, name, confirmed",
}

FUNCTIONS = """
CREATE FUNCTION bridge_audit_name(kind text, r jsonb) RETURNS text LANGUAGE sql STABLE AS $$
SELECT left(coalesce(CASE kind
  WHEN 'upstream' THEN r->>'name'
  WHEN 'credential' THEN r->>'label'
  WHEN 'route' THEN r->>'alias'
  WHEN 'route target' THEN (SELECT alias FROM keys_route WHERE id = (r->>'route_id')::bigint) || ' to '
    || (SELECT name FROM keys_upstream WHERE id = (r->>'upstream_id')::bigint)
  WHEN 'client token' THEN (SELECT username FROM auth_user WHERE id = (r->>'user_id')::int) || ': ' || (r->>'name')
  WHEN 'budget' THEN r->>'name'
  WHEN 'price' THEN r->>'upstream_model'
  WHEN 'user' THEN r->>'username'
  WHEN 'group' THEN r->>'name'
  WHEN 'group membership' THEN (SELECT username FROM auth_user WHERE id = (r->>'user_id')::int) || ' in '
    || (SELECT name FROM auth_group WHERE id = (r->>'group_id')::int)
  WHEN 'permission of a user' THEN (SELECT username FROM auth_user WHERE id = (r->>'user_id')::int) || ': '
    || (SELECT codename FROM auth_permission WHERE id = (r->>'permission_id')::int)
  WHEN 'permission of a group' THEN (SELECT name FROM auth_group WHERE id = (r->>'group_id')::int) || ': '
    || (SELECT codename FROM auth_permission WHERE id = (r->>'permission_id')::int)
  ELSE (SELECT username FROM auth_user WHERE id = (r->>'user_id')::int)
END, ''), 300) $$;

CREATE FUNCTION bridge_audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  kind text := TG_ARGV[0];
  watched text[] := string_to_array(replace(replace(TG_ARGV[1], ' ', ''), '"', ''), ',');
  was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
  is_now jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
  changed text[] := '{}';
BEGIN
  IF TG_OP = 'UPDATE' THEN
    SELECT coalesce(array_agg(key ORDER BY key), '{}') INTO changed FROM jsonb_each(is_now)
    WHERE value IS DISTINCT FROM was->key AND (watched = '{}' OR key = ANY (watched));
    IF changed = '{}' THEN RETURN NULL; END IF;
  END IF;
  INSERT INTO members_auditentry (actor, address, action, kind, subject_id, before, after, fields) VALUES (
    left(coalesce(current_setting('bridge.actor', true), ''), 150),
    left(coalesce(current_setting('bridge.address', true), ''), 64),
    CASE TG_OP WHEN 'INSERT' THEN 'added' WHEN 'UPDATE' THEN 'changed' ELSE 'deleted' END,
    kind, coalesce(is_now, was)->>'id',
    CASE WHEN was IS NULL THEN '' ELSE bridge_audit_name(kind, was) END,
    CASE WHEN is_now IS NULL THEN '' ELSE bridge_audit_name(kind, is_now) END,
    changed);
  RETURN NULL;
END $$;

CREATE FUNCTION bridge_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is only ever added to'; END $$;
CREATE TRIGGER bridge_append_only BEFORE UPDATE OR DELETE ON members_auditentry
FOR EACH STATEMENT EXECUTE FUNCTION bridge_refuse();
"""


def _trigger(table: str, kind: str) -> str:
    columns = COLUMNS.get(table, "")
    update = f"UPDATE OF {columns}" if columns else "UPDATE"
    return (
        f"CREATE TRIGGER bridge_audit AFTER INSERT OR DELETE OR {update} ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION bridge_audit('{kind}', '{columns}');"
    )


CREATE = FUNCTIONS + "\n".join(_trigger(table, kind) for table, kind in WATCHED.items())
DROP = "\n".join(
    [
        *(f"DROP TRIGGER bridge_audit ON {table};" for table in WATCHED),
        "DROP TRIGGER bridge_append_only ON members_auditentry;",
        "DROP FUNCTION bridge_audit, bridge_refuse, bridge_audit_name;",
    ]
)


class Migration(migrations.Migration):
    dependencies = [
        ("members", "0001_audit_and_lockout"),
        ("keys", "0001_create_upstreams_and_tokens"),
        ("usage", "0002_budgets_leases_days"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("otp_totp", "0003_add_timestamps"),
        ("otp_static", "0003_add_timestamps"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [migrations.RunSQL(CREATE, DROP)]

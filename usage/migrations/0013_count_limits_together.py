"""Limits of client tokens, counted for all workers together."""

from django.db import migrations, models

# What a crash of Postgres takes along is a minute's count.
UNLOGGED = """
ALTER TABLE usage_tokenminute SET UNLOGGED, SET (fillfactor = 50);
ALTER TABLE usage_tokenrunning SET UNLOGGED, SET (fillfactor = 50);
"""

COUNT = """
-- Count requests and their ends, one after the other.
-- asked: [{place, token, rpm, tpm, streams, own, need | back}]. rpm, tpm and streams are the token's limits or null; own is
-- how many of its answers run on this worker. With `need` a request asks for so many tokens and a place: it gets all, or
-- nothing. With `back` one is over, and so many tokens too many were taken (too few, where it is negative).
-- Answers each request with what is left, and with the answers that run on other workers.
CREATE FUNCTION usage_count(asked json, by_worker text)
RETURNS TABLE (place integer, is_granted boolean, requests_left float8, tokens_left float8, elsewhere bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    ask record;
    had usage_tokenminute;
    minutes float8;
    running_here bigint;
BEGIN
    FOR ask IN
        SELECT * FROM json_to_recordset(asked) AS a(
            place integer, token bigint, rpm integer, tpm integer, streams integer, own bigint, need float8, back float8)
        ORDER BY a.token, a.place  -- one order of locking for all workers
    LOOP
        -- The token's row is locked from here on, and with it what runs for the token.
        SELECT * INTO had FROM usage_tokenminute AS m WHERE m.token_id = ask.token FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO usage_tokenminute (token_id, requests, tokens, counted_at)
            VALUES (ask.token, ask.rpm, ask.tpm, clock_timestamp()) ON CONFLICT DO NOTHING;
            SELECT * INTO had FROM usage_tokenminute AS m WHERE m.token_id = ask.token FOR UPDATE;
        END IF;
        minutes := greatest(extract(epoch FROM clock_timestamp() - had.counted_at), 0) / 60;
        place := ask.place;
        requests_left := least(ask.rpm, coalesce(had.requests, ask.rpm) + minutes * ask.rpm);
        tokens_left := least(ask.tpm, coalesce(had.tokens, ask.tpm) + minutes * ask.tpm);
        running_here := ask.own;
        IF ask.need IS NULL THEN
            tokens_left := least(ask.tpm, tokens_left + ask.back);
        ELSE
            elsewhere := 0;
            IF ask.streams IS NOT NULL THEN
                SELECT coalesce(sum(r.running), 0) INTO elsewhere
                FROM usage_tokenrunning AS r JOIN usage_workerlease AS l USING (worker)
                WHERE r.token_id = ask.token AND r.worker <> by_worker;
            END IF;
            is_granted := coalesce(requests_left >= 1, true) AND coalesce(tokens_left >= ask.need, true)
                AND coalesce(elsewhere + ask.own < ask.streams, true);
            IF is_granted THEN
                requests_left := requests_left - 1;
                tokens_left := tokens_left - ask.need;
                running_here := ask.own + 1;
            ELSE
                running_here := NULL;
            END IF;
            RETURN NEXT;
        END IF;
        UPDATE usage_tokenminute AS m
        SET requests = requests_left, tokens = tokens_left, counted_at = clock_timestamp()
        WHERE m.token_id = ask.token;
        IF running_here IS NOT NULL THEN
            INSERT INTO usage_tokenrunning AS r (token_id, worker, running) VALUES (ask.token, by_worker, running_here)
            ON CONFLICT (token_id, worker) DO UPDATE SET running = excluded.running;
        END IF;
    END LOOP;
END
$$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0012_sums_by_credential"),
    ]

    operations = [
        migrations.CreateModel(
            name="TokenMinute",
            fields=[
                ("token_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("requests", models.FloatField(null=True)),
                ("tokens", models.FloatField(null=True)),
                ("counted_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="TokenRunning",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "token_id", "worker", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("token_id", models.BigIntegerField()),
                ("worker", models.CharField(max_length=64)),
                ("running", models.PositiveIntegerField()),
            ],
        ),
        migrations.RunSQL(UNLOGGED, migrations.RunSQL.noop),
        migrations.RunSQL(COUNT, "DROP FUNCTION usage_count(json, text)"),
    ]

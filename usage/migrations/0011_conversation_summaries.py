import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("usage", "0010_index_days_by_user_and_team"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ConversationSummary",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("conversation", models.CharField(max_length=64)),
                ("covered", models.PositiveIntegerField()),
                ("fingerprint", models.CharField(max_length=64)),
                ("sealed_text", models.TextField()),
                ("written_by", models.CharField(max_length=256)),
                ("request_id", models.CharField(db_index=True, max_length=64)),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("used_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), db_index=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["conversation", "covered", "fingerprint"], name="usage_summary_once"
                    )
                ],
            },
        ),
    ]

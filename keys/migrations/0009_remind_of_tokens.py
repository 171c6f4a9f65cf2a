from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("keys", "0008_keep_sightings_of_secrets"),
    ]

    operations = [
        migrations.AddField("clienttoken", "reminded_at", models.DateTimeField(blank=True, editable=False, null=True)),
    ]

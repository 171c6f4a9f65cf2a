from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("members", "0003_make_roles")]

    operations = [
        migrations.AlterModelOptions(
            name="auditentry",
            options={"ordering": ["-id"], "verbose_name": "audit entry", "verbose_name_plural": "audit entries"},
        ),
    ]

"""Second factors, log-in throttling and single sign-on identities of console users."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="SecondFactor",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("secret_encrypted", models.BinaryField()),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("confirmed_at", models.DateTimeField(blank=True, null=True)),
                ("last_step", models.BigIntegerField(default=0)),
                (
                    "recovery_hashes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BinaryField(max_length=32), default=list, size=None
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="LoginThrottle",
            fields=[
                ("bucket", models.BinaryField(max_length=32, primary_key=True, serialize=False)),
                ("whole_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["whole_at"], name="login_throttle_age")],
            },
        ),
        migrations.CreateModel(
            name="SignOnIdentity",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("issuer", models.CharField(max_length=500)),
                ("subject", models.CharField(max_length=255)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("issuer", "subject"), name="sign_on_identity_once")],
            },
        ),
    ]

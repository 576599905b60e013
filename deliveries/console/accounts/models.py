"""What the console keeps about its users beside Django's own tables."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class LoginThrottle(models.Model):
    """How many failed logins an account or an address has left. Rows that are whole again are deleted."""

    # SHA-256 of what is counted: a name that somebody typed is not kept.
    bucket = models.BinaryField(max_length=32, primary_key=True)
    # When all failures are forgiven. Each failure moves it further away.
    whole_at = models.DateTimeField()

    class Meta:
        indexes = [
            # throttle.py: forget_old.
            models.Index(fields=["whole_at"], name="login_throttle_age"),
        ]

    def __str__(self) -> str:
        return f"throttled until {self.whole_at}"


class SecondFactor(models.Model):
    """A user's authenticator app. It counts from the moment its first code was confirmed."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE)
    secret_encrypted = models.BinaryField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    # The time step of the last code that was accepted: no code counts twice.
    last_step = models.BigIntegerField(default=0)
    # SHA-256 of each recovery code that has not been used.
    recovery_hashes = ArrayField(models.BinaryField(max_length=32), default=list)

    def __str__(self) -> str:
        return f"second factor of user {self.user_id}"


class SignOnIdentity(models.Model):
    """The person at the identity provider behind a user. Names and addresses may change there; this does not."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE)
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="sign_on_identity_once")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"

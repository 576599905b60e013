"""Who may enter the console, and how: passwords with a throttle, a second factor, single sign-on.

| file | what it does |
|---|---|
| login.py | the login form: throttle, password, second factor |
| throttle.py | counts failed logins by account and by address |
| device.py | the cookie of a browser that has logged in before |
| second_factor.py | one-time codes of an authenticator app, and recovery codes |
| sign_on.py | single sign-on with an OpenID Connect provider; off unless OIDC_ISSUER is set |
| pages.py | “Your account”: setting up and removing the second factor |
"""

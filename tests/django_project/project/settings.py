import os
from pathlib import Path

FOLDER = Path(os.environ.get("PROJECT_DATA", "."))
REDIS = os.environ.get("REDIS", "redis://localhost:6379")

SECRET_KEY = "an example"
INSTALLED_APPS = ["shop"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "shop.sqlite3"},
    "archive": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "archive.sqlite3"},
}
for database in DATABASES.values():
    database["OPTIONS"] = {"timeout": 20, "transaction_mode": "IMMEDIATE"}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "Europe/Berlin"

CELERY_BROKER_URL = f"{REDIS}/1"
CELERY_RESULT_BACKEND = f"{REDIS}/2"
CELERY_TQ_URL = f"{REDIS}/0"
CELERY_TQ_NAMESPACE = "shop"
CELERY_TQ_LEASE = "10s"
CELERY_TQ_ROUTES = {"shop.tasks.clean": {"tenant": {"const": "house"}}}

import os
import pathlib

SECRET_KEY = "an example has no secrets"
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
DATABASE = os.environ.get("SHOP_DATABASE", pathlib.Path(__file__).parent / "shop.sqlite3")
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

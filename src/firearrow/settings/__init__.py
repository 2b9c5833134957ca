"""One loader of settings: defaults < file < environment < flags."""

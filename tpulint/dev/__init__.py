"""Programs that the people who work on tpulint run; nothing else imports them."""

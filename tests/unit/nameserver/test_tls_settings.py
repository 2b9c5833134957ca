"""The part of the settings that a short name means."""

from firearrow.cli.nameserver import NameServerSettings
from firearrow.settings.load import Source, load


def test_a_short_name_of_tls_means_the_port_and_not_outgoing_connections() -> None:
    text = "certificate_path=shown.pem\nclient_tls.certificate_path=own.pem\n"
    found = load(NameServerSettings, [Source.from_text("names.conf", text)]).value
    assert (found.tls.certificate_path, found.client_tls.certificate_path) == ("shown.pem", "own.pem")

"""``firearrow profile``: names for clusters, with their name servers, TLS and keys."""

import os
from typing import Annotated

import typer

from firearrow.cli.cluster import AsJson, NameServers, fail, name_servers, reach_of
from firearrow.cli.operate.user_file import Profile, chosen_profile, profiles_file, read_profiles, write_profiles
from firearrow.cli.tables import print_json, print_table
from firearrow.errors import FireArrowError
from firearrow.model.signature import SignatureMethod

profile = typer.Typer(
    add_completion=False,
    help="Names for clusters: name servers, TLS and keys, for --profile NAME.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the profile.")]


@profile.command("add")
def add(
    context: typer.Context,
    name: Name,
    servers: NameServers = "",
) -> None:
    """Keep how a cluster is reached under a name: -n, --tls, --trust, --access-key, --secret-key and
    --signature-method of this command.

    A profile of the same name is replaced. With --access-key and without a secret key, the secret is asked for.
    """
    where, reach = name_servers(context, servers), reach_of(context)
    access_key, secret = reach.get("access_key", ""), reach.get("secret_key", "")
    if access_key and not secret:
        secret = typer.prompt("Secret key", hide_input=True)
    if secret and not access_key:
        fail(context, "--secret-key belongs to an account; give its --access-key too")
    tls = reach.get("tls")
    made = Profile(
        where,
        tls=tls is not None and tls.enabled,
        trust="" if tls is None or not tls.trust_path else os.path.abspath(tls.trust_path),
        access_key=access_key,
        secret_key=secret,
        signature_method=reach.get("signature_method", SignatureMethod.SHA1),
    )
    try:
        from firearrow.client.name_servers import name_server_source

        name_server_source(where)
        file = profiles_file(os.environ)
        write_profiles(file, {**read_profiles(file), name: made})
    except FireArrowError as error:
        fail(context, str(error))
    typer.echo(f"profile {name} is kept in {file}; use it with --profile {name} or FIREARROW_PROFILE={name}")


@profile.command("list")
def list_profiles(context: typer.Context, as_json: AsJson = False) -> None:
    """List profiles; secrets are not shown."""
    try:
        profiles = read_profiles(profiles_file(os.environ))
    except FireArrowError as error:
        fail(context, str(error))
    if as_json:
        print_json({name: each.shown() for name, each in profiles.items()})
        return
    rows = [
        (name, each.name_servers, "yes" if each.tls else "no", each.access_key or "-")
        for name, each in profiles.items()
    ]
    print_table("Profiles", ["name", "name servers", "TLS", "access key"], rows)


@profile.command("remove")
def remove(context: typer.Context, name: Name) -> None:
    """Forget a profile."""
    file = profiles_file(os.environ)
    try:
        chosen_profile(name, file)
        write_profiles(file, {kept: each for kept, each in read_profiles(file).items() if kept != name})
    except FireArrowError as error:
        fail(context, str(error))
    typer.echo(f"profile {name} is gone")

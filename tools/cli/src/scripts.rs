//! The command line as data: for scripts that complete it, and for manual pages.

use clap::{Arg, Command};

use crate::{cli, store_args};

/// The command line with all options that a command takes, those of the store and of `bench` included.
pub fn complete() -> Command {
    with_bench(cli::command()).mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        // An option of the store belongs to a subcommand once it is a global one of its own.
        let taken = store_args::rows().filter(|_| cli::takes_engine(&name));
        taken.fold(sub, |sub, row| sub.arg(store_args::flag(row).hide(false)))
    })
}

/// What has a manual page: the command as a whole, each command, and the options of the store.
pub fn pages() -> Vec<Command> {
    let mut whole = with_bench(cli::command());
    let name = whole.get_name().to_owned();
    whole.build();
    let mut pages = vec![whole.clone()];
    commands(&whole, &name, &mut pages);
    let options = store_args::rows().map(|row| store_args::flag(row).global(false).hide(false));
    pages.push(
        page(&name, "options")
            .about("Options of the store: every command that opens one takes them")
            .args(options),
    );
    pages
}

/// Adds the commands within `command`, whose page is `name`.
fn commands(command: &Command, name: &str, pages: &mut Vec<Command>) {
    for sub in command.get_subcommands() {
        let titled = page(name, sub.get_name());
        let name = titled.get_name().to_owned();
        // The page shows the words of the command line, the name of the page has dashes between them.
        let usage = name.replace('-', " ");
        pages.push(sub.clone().name(name.clone()).display_name(name.clone()).bin_name(usage));
        commands(sub, &name, pages);
    }
}

fn page(of: &str, name: &str) -> Command {
    Command::new(format!("{of}-{name}"))
}

/// `command` with the flags of `bench`, which `bench` itself parses.
fn with_bench(command: Command) -> Command {
    command.mut_subcommand("bench", |sub| {
        let hidden: Vec<Arg> =
            sub.get_arguments().filter(|arg| arg.is_hide_set()).cloned().collect();
        let about = sub.get_about().cloned().unwrap_or_default();
        let flags = bench::flags()
            .map(|flag| Arg::new(flag.name).long(flag.name).value_name(flag.takes).help(flag.doc));
        // `--help` is one of the flags.
        let shown = Command::new("bench")
            .disable_help_flag(true)
            .about(about)
            .args(flags)
            .after_help(bench::benchmarks());
        let ids: Vec<_> = shown.get_arguments().map(|arg| arg.get_id().clone()).collect();
        let hidden = hidden.into_iter().filter(|arg| !ids.contains(arg.get_id()));
        hidden.fold(shown, Command::arg)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_lines_are_well_formed() {
        complete().debug_assert();
        pages().into_iter().for_each(Command::debug_assert);
    }
}

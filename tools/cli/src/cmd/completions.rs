//! `completions SHELL`: a script by which a shell completes this command.

use clap::{Args, Command};
use clap_complete::{Shell, generate};
use serde_json::json;

use crate::context::Context;
use crate::failure::{OK, Outcome};
use crate::output::Out;

#[derive(Args)]
#[command(after_help = "\
Where the script goes:
  bash   strandline completions bash > ~/.local/share/bash-completion/completions/strandline
  fish   strandline completions fish > ~/.config/fish/completions/strandline.fish
  zsh    strandline completions zsh > DIR/_strandline, DIR being one of $fpath")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// `command`: the command line with all options.
pub fn run(context: &Context, args: &CompletionsArgs, mut command: Command) -> Outcome {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    let mut out = Out::new();
    if context.json {
        let script = String::from_utf8_lossy(&script);
        out.json(&json!({ "shell": args.shell.to_string(), "script": script }))?;
    } else {
        out.bytes(&script)?;
    }
    out.finish()?;
    Ok(OK)
}

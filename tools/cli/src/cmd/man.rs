//! `man [COMMAND…]`: manual pages.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};
use crate::human;
use crate::output::Out;

#[derive(Args)]
#[command(after_help = "\
Examples:
  strandline man put | man -l -
  strandline man --dir ~/.local/share/man/man1 && man strandline-load")]
pub struct ManArgs {
    /// A command, or `options` for the options of the store; without it, the page of strandline as a whole
    command: Vec<String>,
    /// Write the pages of all commands to this directory, and strandline-options.1 for the options of the store
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// `pages`: what has a page, the command as a whole first.
pub fn run(context: &Context, args: &ManArgs, pages: Vec<Command>) -> Outcome {
    match &args.dir {
        Some(dir) => write(context, dir, pages),
        None => print(context, find(pages, &args.command)?),
    }
}

/// The page of a command, whose name has dashes between its words.
fn find(pages: Vec<Command>, command: &[String]) -> Result<Command, Failure> {
    let words: Vec<&str> =
        ["strandline"].into_iter().chain(command.iter().map(String::as_str)).collect();
    let name = words.join("-");
    pages.into_iter().find(|page| page.get_name() == name).ok_or_else(|| {
        let command = command.join(" ");
        Failure::Usage(format!(
            "man: no command {command}; strandline help lists all, and man --dir DIR writes their pages"
        ))
    })
}

fn print(context: &Context, found: Command) -> Outcome {
    let mut page = Vec::new();
    render(found, &mut page).map_err(|error| Failure::Other(format!("man: {error}")))?;
    let mut out = Out::new();
    if context.json {
        out.json(&json!({ "page": String::from_utf8_lossy(&page) }))?;
    } else {
        out.bytes(&page)?;
    }
    out.finish()?;
    Ok(OK)
}

fn write(context: &Context, dir: &Path, pages: Vec<Command>) -> Outcome {
    let failed = |path: &Path, error: io::Error| {
        Failure::Other(format!("writing {}: {error}; name a directory with --dir", path.display()))
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    let mut names = Vec::new();
    for page in pages {
        let name = format!("{}.1", page.get_name());
        let (path, mut text) = (dir.join(&name), Vec::new());
        render(page, &mut text)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| failed(&path, error))?;
        names.push(name);
    }
    let count = human::plural(names.len() as u64, "page");
    context.report(
        format_args!("wrote {count} to {}", dir.display()),
        &json!({ "dir": dir.display().to_string(), "pages": names }),
    )?;
    Ok(OK)
}

fn render(page: Command, text: &mut Vec<u8>) -> io::Result<()> {
    Man::new(page).render(text)
}

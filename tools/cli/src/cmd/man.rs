//! `man [DIR]`: manual pages.

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
  strandline man | man -l -
  strandline man ~/.local/share/man/man1 && man strandline-load")]
pub struct ManArgs {
    /// Write the pages of all commands here, and strandline-options.1 for the options of the store
    dir: Option<PathBuf>,
}

/// `pages`: what has a page, the command as a whole first.
pub fn run(context: &Context, args: &ManArgs, pages: Vec<Command>) -> Outcome {
    match &args.dir {
        Some(dir) => write(context, dir, pages),
        None => print(context, pages),
    }
}

fn print(context: &Context, pages: Vec<Command>) -> Outcome {
    let mut page = Vec::new();
    if let Some(whole) = pages.into_iter().next() {
        render(whole, &mut page).map_err(|error| Failure::Other(format!("man: {error}")))?;
    }
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
        Failure::Other(format!("writing {}: {error}; give a directory", path.display()))
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

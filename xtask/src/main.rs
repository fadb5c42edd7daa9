//! Tasks of the project that are neither build nor test: `cargo xtask crash`.
#![forbid(unsafe_code)]

mod crash;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some("crash") => crash::run(&args[1..]),
        _ => Err(crash::USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

//! `strandline bench` on its own. Arguments may begin with `bench`, as those of its child processes do.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    if args.first().is_some_and(|arg| arg == "bench") {
        args.remove(0);
    }
    match bench::run(&args) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(if matches!(error, bench::BenchError::Usage(_)) { 2 } else { 1 })
        }
    }
}

//! Tasks of the project that are neither build nor test: `cargo xtask crash`, `figures`, `fullness`, `golden`, `guide`,
//! `hits`, `kill9`, `lackey`, `soak`, `storm`, `tidy`.
#![forbid(unsafe_code)]

mod crash;
mod figures;
mod fullness;
mod golden;
mod guide;
mod hits;
mod kill9;
mod lackey;
mod soak;
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some("crash") => crash::run(&args[1..]),
        Some("figures") => figures::run(&args[1..]),
        Some("fullness") => fullness::run(&args[1..]),
        Some("golden") => golden::run(&args[1..]),
        Some("guide") => guide::run(&args[1..]),
        Some("hits") => hits::run(&args[1..]),
        Some(hits::CHILD) => hits::child(&args[1..]),
        Some("kill9") => kill9::run(&args[1..]),
        Some(kill9::CHILD) => kill9::child(&args[1..]),
        Some(kill9::JANITOR) => kill9::janitor(&args[1..]),
        Some("lackey") => lackey::run(&args[1..]),
        Some(lackey::CHILD) => lackey::child(&args[1..]),
        Some("soak") => soak::run(&args[1..]),
        Some(soak::CHILD) => soak::child(&args[1..]),
        Some("storm") => soak::storm::run(&args[1..]),
        Some("tidy") => tidy::run(&args[1..]),
        _ => {
            Err("usage: cargo xtask crash|figures|fullness|golden|guide|hits|kill9|lackey|soak|storm|tidy [options]"
                .into())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

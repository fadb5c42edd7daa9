//! The command line of `cargo xtask crash`.

pub const USAGE: &str =
    "usage: cargo xtask crash [--campaign NAME] [--seed N] [--seeds N] [--scale N]
                         [--bug NAME] [--no-mutants | --only-mutants]
  --campaign    only campaigns whose name begins so
  --seed N      first seed; every seed is an independent case, so `--seeds 1` repeats just that one
  --seeds N     cases of every campaign
  --scale N     cases of every campaign, in hundredths of the plan's; 100 is what CI runs
  --bug NAME    hunts only mutants whose name begins so, and runs no campaign
  --no-mutants  campaigns only
  --only-mutants  hunts only";

pub struct CrashArgs {
    pub campaign: String,
    pub seed: u64,
    pub seeds: Option<u64>,
    pub scale: u64,
    pub bug: String,
    pub campaigns: bool,
    pub mutants: bool,
}

impl CrashArgs {
    pub fn parse(args: &[String]) -> Result<CrashArgs, String> {
        let mut parsed = CrashArgs {
            campaign: String::new(),
            seed: 0,
            seeds: None,
            scale: 100,
            bug: String::new(),
            campaigns: true,
            mutants: true,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(USAGE);
            let number = |text: &String| {
                text.parse::<u64>().map_err(|_| format!("{arg} {text}: not a number\n{USAGE}"))
            };
            match arg.as_str() {
                "--campaign" => parsed.campaign = value()?.clone(),
                "--seed" => parsed.seed = number(value()?)?,
                "--seeds" => parsed.seeds = Some(number(value()?)?),
                "--scale" => parsed.scale = number(value()?)?,
                "--bug" => (parsed.bug, parsed.campaigns) = (value()?.clone(), false),
                "--no-mutants" => parsed.mutants = false,
                "--only-mutants" => parsed.campaigns = false,
                _ => return Err(USAGE.into()),
            }
        }
        Ok(parsed)
    }

    /// Seeds of a campaign for which the plan has `planned` cases.
    pub fn seeds_of(&self, planned: u64) -> std::ops::Range<u64> {
        let count = self.seeds.unwrap_or((planned * self.scale / 100).max(1));
        self.seed..self.seed + count
    }

    /// Whether this is all of what CI runs, or more: then the floors hold.
    pub fn is_everything(&self) -> bool {
        let filtered = !self.campaign.is_empty() || !self.bug.is_empty() || self.seeds.is_some();
        self.campaigns && self.mutants && !filtered && self.scale >= 100
    }
}

//! Throughput and traffic over time: read back from what a run wrote, and told as CSV and as a picture.

use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str =
    "draw,read_percent,scenario,seconds,ops_per_second,dram_read,dram_written,pm_read,pm_written";
const WIDTH: f64 = 760.0;
const PANEL: f64 = 170.0;
const MARGIN: f64 = 60.0;
const COLOURS: [&str; 7] =
    ["#1f77b4", "#ff7f0e", "#d62728", "#c49c94", "#e377c2", "#2ca02c", "#17becf"];

/// A moment. Bytes are per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SeriesRow {
    pub seconds: f64,
    pub ops: f64,
    /// Read and written.
    pub dram: [f64; 2],
    pub pm: [f64; 2],
}

/// What a scenario did over time.
pub(super) struct Curve {
    pub draw: &'static str,
    pub reads: u32,
    pub scenario: &'static str,
    pub rows: Vec<SeriesRow>,
}

/// The rows that `--series` wrote to a file.
pub(super) fn read(path: &Path) -> Result<Vec<SeriesRow>, String> {
    let shown = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| shown(&error))?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        let found = head.iter().position(|column| *column == name);
        found.ok_or_else(|| shown(&format!("there is no column {name}")))
    };
    let [seconds, ops] = [column("seconds")?, column("ops_per_second")?];
    let pm = [column("pm_read")?, column("pm_written")?];
    let rows = lines.map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        // What nothing counts is empty.
        let cell = |at: usize| cells.get(at).and_then(|cell| cell.parse().ok()).unwrap_or(0.0);
        SeriesRow { seconds: cell(seconds), ops: cell(ops), dram: [0.0; 2], pm: pm.map(cell) }
    });
    Ok(rows.collect())
}

/// All curves as CSV.
pub(super) fn csv(curves: &[Curve]) -> String {
    let mut out = format!("{HEAD}\n");
    for Curve { draw, reads, scenario, rows } in curves {
        for SeriesRow { seconds, ops, dram, pm } in rows {
            let _into_memory = writeln!(
                out,
                "{draw},{reads},\"{scenario}\",{seconds:.3},{ops:.1},{:.0},{:.0},{:.0},{:.0}",
                dram[0], dram[1], pm[0], pm[1]
            );
        }
    }
    out
}

/// One panel of a picture: what it shows, and how a row gives it; the second is dashed.
struct Panel {
    title: &'static str,
    scale: f64,
    of: [fn(&SeriesRow) -> f64; 2],
}

const PANELS: [Panel; 3] = [
    Panel { title: "thousand operations/s", scale: 1e3, of: [|row| row.ops, |_| 0.0] },
    Panel {
        title: "MB/s of DRAM, read (written dashed)",
        scale: 1e6,
        of: [|row| row.dram[0], |row| row.dram[1]],
    },
    Panel {
        title: "MB/s of persistent memory, read (written dashed)",
        scale: 1e6,
        of: [|row| row.pm[0], |row| row.pm[1]],
    },
];

/// Curves of one mix as SVG.
pub(super) fn svg(title: &str, curves: &[&Curve]) -> String {
    let height = MARGIN + PANELS.len() as f64 * (PANEL + MARGIN) + 20.0 * curves.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">{title}</text>\n"
    );
    let rows = || curves.iter().flat_map(|curve| &curve.rows);
    let end = rows().map(|row| row.seconds).fold(1e-9, f64::max);
    for (at, panel) in PANELS.iter().enumerate() {
        let bottom = MARGIN + (at as f64 + 1.0) * (PANEL + MARGIN) - MARGIN;
        let most = rows().flat_map(|row| panel.of.map(|of| of(row))).fold(1e-9, f64::max);
        let _never_fails = write!(
            out,
            "<text x=\"{MARGIN}\" y=\"{:.1}\">{}</text>\n\
             <line x1=\"{MARGIN}\" x2=\"{:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\" stroke=\"#888\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{end:.1} s</text>\n",
            bottom - PANEL - 6.0,
            panel.title,
            WIDTH - MARGIN,
            MARGIN - 6.0,
            bottom - PANEL + 12.0,
            most / panel.scale,
            WIDTH - MARGIN,
            bottom + 16.0
        );
        for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
            for (of, dashes) in panel.of.iter().zip(["", " stroke-dasharray=\"4\""]) {
                if curve.rows.iter().all(|row| of(row) == 0.0) {
                    continue;
                }
                let point = |row: &SeriesRow| {
                    let x = MARGIN + (WIDTH - 2.0 * MARGIN) * row.seconds / end;
                    format!("{x:.1},{:.1}", bottom - PANEL * of(row) / most)
                };
                let points: Vec<String> = curve.rows.iter().map(point).collect();
                let _never_fails = writeln!(
                    out,
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"{dashes}/>",
                    points.join(" ")
                );
            }
        }
    }
    for (at, (curve, colour)) in curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let y = height - 20.0 * (curves.len() - at) as f64;
        let _never_fails = writeln!(
            out,
            "<text x=\"{MARGIN}\" y=\"{y:.1}\" fill=\"{colour}\">{}</text>",
            curve.scenario
        );
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("series");
        let text = "benchmark,seconds,ops_per_second,pm_read,pm_read_media,pm_written\nx,0.5,100.0,7,9,8\nx,1.0,50.0,,,\n";
        std::fs::write(&path, text).expect("write");
        let mut rows = read(&path).expect("rows");
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].seconds, rows[0].ops, rows[0].pm), (0.5, 100.0, [7.0, 8.0]));
        assert_eq!(rows[1].pm, [0.0; 2]);
        rows[0].dram = [3.0, 4.0];
        let curve = Curve { draw: "zipf", reads: 50, scenario: "both", rows };
        let told = csv(std::slice::from_ref(&curve));
        assert!(told.contains("\nzipf,50,\"both\",0.500,100.0,3,4,7,8\n"), "{told}");
        let picture = svg("a title", &[&curve]);
        assert_eq!(picture.matches("<polyline").count(), 5, "{picture}");
        assert!(read(Path::new("/nowhere")).is_err());
    }
}

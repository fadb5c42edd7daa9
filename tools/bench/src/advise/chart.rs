//! The miss-ratio curve as a picture.

use std::fmt::Write;

use super::Advice;
use super::split::CacheSplit;
use crate::words::length;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// Room for numbers beside the axes.
const MARGIN: f64 = 60.0;
/// Powers of two that are shown below the size of all data.
const POWERS: u32 = 12;

/// Where a point is in the picture.
struct Axes {
    /// Bytes at the right end.
    most: f64,
}

impl Axes {
    fn x(&self, bytes: f64) -> f64 {
        let powers = f64::from(POWERS) + (bytes / self.most).log2();
        MARGIN + (WIDTH - 2.0 * MARGIN) * (powers / f64::from(POWERS)).clamp(0.0, 1.0)
    }

    fn y(ratio: f64) -> f64 {
        HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * ratio
    }
}

/// The curve, with the sizes of `split` if there is one, as SVG.
pub(super) fn svg(advice: &Advice, split: Option<&CacheSplit>) -> String {
    let axes = Axes { most: advice.bytes.max(1.0) };
    let (left, right, top, bottom) = (MARGIN, WIDTH - MARGIN, Axes::y(1.0), Axes::y(0.0));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"24\" font-size=\"14\">Share of reads that a cache misses, by its size (simulated)</text>\n"
    );
    for part in 0..=4 {
        let (ratio, at) = (f64::from(part) / 4.0, Axes::y(f64::from(part) / 4.0));
        let _never_fails = write!(
            out,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{ratio:.2}</text>\n",
            left - 6.0,
            at + 4.0
        );
    }
    for power in (0..=POWERS).step_by(2) {
        let bytes = axes.most * (f64::from(power) - f64::from(POWERS)).exp2();
        let (x, y, text) = (axes.x(bytes), bottom + 18.0, length(bytes as u64));
        let _never_fails =
            writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>");
    }
    let points = advice.curve.iter().filter(|point| point.bytes * 4096.0 >= axes.most);
    let points =
        points.map(|point| format!("{:.1},{:.1}", axes.x(point.bytes), Axes::y(point.miss_ratio)));
    let points = points.collect::<Vec<_>>().join(" ");
    let _never_fails = writeln!(
        out,
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\"/>"
    );
    let sizes = split.map_or([0.0; 2], |split| [split.dram, split.dram + split.pm]);
    for (bytes, name, colour) in [(sizes[0], "DRAM", "#2ca02c"), (sizes[1], "with PM", "#d62728")] {
        if bytes > 0.0 {
            let x = axes.x(bytes);
            let _never_fails = write!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" stroke=\"{colour}\" stroke-dasharray=\"4\"/>\n\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{colour}\">{name}</text>\n",
                top - 6.0
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

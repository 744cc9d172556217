//! Statistics, figures and the HTML report, from run directories alone.

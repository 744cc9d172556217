//! A small HTTP server for one page on the loopback interface.

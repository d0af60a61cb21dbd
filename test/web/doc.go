// Package web tests the console (package web) in a real browser: a headless Chromium opens each page of a
// server with tasks, takes its actions, and axe-core looks for what keeps people out. Its pictures are those
// of docs/how-to/console.md.
package web

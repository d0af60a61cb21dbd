// Package docs is documentation for users and developers, and tests that compare its pages with the code. It
// has no code of its own.
package docs

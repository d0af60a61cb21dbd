// Package crash kills the server under load, again and again, and judges the whole history.
package crash

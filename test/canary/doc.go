// Package canary schedules, runs, fails and reads tasks whose payloads have a mark that nothing else has, and
// looks for it wherever it should not be: with a payload codec in everything that leaves a program, without
// one in logs, metrics and errors.
package canary

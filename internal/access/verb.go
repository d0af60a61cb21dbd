// Package access says who may do what. An Identity is whoever makes a call; its grants name the verbs that it
// may use, each on the lambdas and collections that match a pattern. Everything that no grant allows is
// denied.
//
// The package decides and reads nothing: others find out whose a call is, and refuse it.
package access

import (
	"fmt"
	"slices"
	"strings"
)

// Verb is a kind of action.
type Verb string

// The verbs.
const (
	Schedule    Verb = "schedule"     // accept tasks
	Read        Verb = "read"         // see lambdas, and tasks without their payloads
	ReadPayload Verb = "read-payload" // see payloads
	Cancel      Verb = "cancel"       // cancel tasks
	Operate     Verb = "operate"      // retry and delete what was set aside
	Execute     Verb = "execute"      // run tasks as a worker, which includes their payloads
	Admin       Verb = "admin"        // create, change and delete lambdas; on all lambdas also tokens, audit records and backups
	Keyring     Verb = "keyring"      // read and rotate keys
	Metrics     Verb = "metrics"      // read /metrics
	Debug       Verb = "debug"        // read /debug/pprof
)

// Verbs lists all verbs.
func Verbs() []Verb {
	return []Verb{Schedule, Read, ReadPayload, Cancel, Operate, Execute, Admin, Keyring, Metrics, Debug}
}

// anyVerb stands for all verbs in a grant.
const anyVerb Verb = "*"

// isOfLambdas reports whether a verb acts on lambdas; the others act on the installation.
func (v Verb) isOfLambdas() bool { return v != Keyring && v != Metrics && v != Debug }

// parseVerb returns the verb of that name.
func parseVerb(text string) (Verb, error) {
	v := Verb(text)
	if v == anyVerb || slices.Contains(Verbs(), v) {
		return v, nil
	}
	return "", fmt.Errorf("unknown verb %.100q: want one of %s, or * for all of them", text, VerbNames())
}

// VerbNames returns the names of all verbs, for people.
func VerbNames() string {
	names := make([]string, len(Verbs()))
	for i, v := range Verbs() {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}

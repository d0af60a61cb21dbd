package web

import (
	"net/url"
	"strings"
)

// Prefix is the beginning of the paths of the console.
const Prefix = "/ui/"

// CallbackPath is where the page of a provider leads back to.
const CallbackPath = Prefix + "signin/callback"

// Has reports whether a path is of the console.
func Has(path string) bool { return path == "/" || path == "/ui" || strings.HasPrefix(path, Prefix) }

// Needs reports whether a path of the console needs to know who asks for it.
func Needs(path string) bool {
	return strings.HasPrefix(path, Prefix) && path != Prefix+"signin" && !strings.HasPrefix(path, Prefix+"signin/") && !strings.HasPrefix(path, Prefix+"static/")
}

// withQuery returns a path with those names and values whose value is not empty.
func withQuery(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

func pathTo(section, name string) string { return Prefix + section + "/" + url.PathEscape(name) }

func taskPath(id string) string     { return pathTo("tasks", id) }
func lambdaPath(name string) string { return pathTo("lambdas", name) }
func cronPath(name string) string   { return pathTo("crons", name) }
func jobPath(id string) string      { return pathTo("jobs", id) }

// tasksPath leads to the tasks of a filter, in an order unless that is empty, from a cursor on.
func tasksPath(where, order, cursor string) string {
	return withQuery(Prefix+"tasks", "q", where, "order", order, "cursor", cursor)
}

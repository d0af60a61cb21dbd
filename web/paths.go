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

func lambdaPath(name string) string { return Prefix + "lambdas/" + url.PathEscape(name) }

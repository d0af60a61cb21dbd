// Package kube x.
package kube

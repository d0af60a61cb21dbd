// Package wirecopytest finds the fields that wirecopy leaves alone, for tests.
package wirecopytest

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Unmatched returns the fields of a message that the Go type does not have, and those that the Go type has alone, as
// in Lambda.Breaker.Window. It looks into messages in messages too.
func Unmatched[T, M any]() (ofWire, ofGo []string) {
	walk(reflect.TypeFor[M](), reflect.TypeFor[T](), "", map[reflect.Type]bool{}, &ofWire, &ofGo)
	return ofWire, ofGo
}

func walk(wire, own reflect.Type, path string, seen map[reflect.Type]bool, ofWire, ofGo *[]string) {
	for wire.Kind() == reflect.Pointer || wire.Kind() == reflect.Slice {
		wire = wire.Elem()
	}
	for own.Kind() == reflect.Pointer || own.Kind() == reflect.Slice {
		own = own.Elem()
	}
	if wire.Kind() != reflect.Struct || own.Kind() != reflect.Struct || own == reflect.TypeFor[time.Time]() || seen[own] {
		return
	}
	seen[own] = true
	for _, f := range visible(wire) {
		if g := named(own, f.Name); g != nil {
			walk(f.Type, g.Type, path+g.Name+".", seen, ofWire, ofGo)
		} else {
			*ofWire = append(*ofWire, path+f.Name)
		}
	}
	for _, f := range visible(own) {
		if named(wire, f.Name) == nil {
			*ofGo = append(*ofGo, path+f.Name)
		}
	}
}

// visible returns the exported fields of a struct, and of what is embedded in it.
func visible(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return !f.IsExported() || f.Anonymous })
}

// named returns the field of a struct with a name; nil if there is none.
func named(t reflect.Type, name string) *reflect.StructField {
	for _, f := range visible(t) {
		if strings.EqualFold(f.Name, name) {
			return &f
		}
	}
	return nil
}

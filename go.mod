module github.com/kinesin-io/kinesin

go 1.26.0

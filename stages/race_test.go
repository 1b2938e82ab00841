//go:build race

package stages

const underRace = true

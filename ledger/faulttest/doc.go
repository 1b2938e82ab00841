// Package faulttest is a disk that fails on purpose, for tests of what a
// ledger writes: its SQLite database (through a SQLite VFS in front of the
// default one) and its durable files (in place of the operating system's file
// calls). Both report to one [Machine], which
//
//   - lets one call fail, half happen, happen and be reported lost, or be lost
//     and reported well ([Machine.Inject]), and
//   - writes down every change in order, so that the disk can be laid out as it
//     would be found after the process was killed or the power was lost at any
//     point ([Machine.Image]).
//
// Calls on files outside a machine's folder pass through.
package faulttest

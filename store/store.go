// Package store is the only package that speaks SQL.
package store

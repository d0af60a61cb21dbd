// Package chain has what follows a task created together with its end. A Keeper stands before the store:
// every write that ends a task goes through its Apply, which adds the first rows of the follow-ups, and
// every deletion of a leftover row, which may be all that is left of an end that was not completed. So no
// role can end a task without its follow-ups, and none is lost or created twice, whatever dies in between.
// A Service shows chains, and cancels, pauses, resumes, extends and redrives them. The package decides nothing
// about tasks and checks no rights.
package chain

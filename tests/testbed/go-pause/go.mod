module charterer.dev/pause

go 1.26.0

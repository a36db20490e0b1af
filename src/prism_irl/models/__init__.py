"""The methods: pairs of switching and rewards fitted by EM (`pair`), and references; `registry` lists them all."""

"""A small web gym that we serve ourselves: five web apps, tasks on them and their grading."""
